package client

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Whatever a server sends, the reducer neither panics nor shows something twice.
func FuzzApply(f *testing.F) {
	f.Add("item/started", `{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"i","text":""}}`)
	f.Add("item/reasoning/summaryTextDelta", `{"threadId":"t","turnId":"u","itemId":"r","summaryIndex":-1,"delta":"x"}`)
	f.Add("item/commandExecution/outputDelta", `{"threadId":"t","turnId":"u","itemId":"c","delta":"x","offset":18446744073709551615}`)
	f.Add("turn/completed", `{"threadId":"t","turn":{"id":"u","status":"failed","items":[]}}`)
	f.Fuzz(func(t *testing.T, method, params string) {
		th := NewThread(protocol.ThreadStartResponse{Thread: protocol.Thread{ID: "t"}})
		for _, item := range []string{`{"type":"reasoning","id":"r","summary":[],"content":[]}`, `{"type":"commandExecution","id":"c"}`} {
			th.Apply(rpc.Notification{Method: "item/started", Params: json.RawMessage(`{"threadId":"t","turnId":"u","item":` + item + `}`)})
		}
		for range 2 {
			th.Apply(rpc.Notification{Method: method, Params: json.RawMessage(params)})
		}
		seen := map[string]bool{}
		for _, i := range th.Items {
			_ = i.Text()
			if i.Body == nil {
				continue
			}
			if k := key(i.Turn, i.Body.Header().ID); seen[k] {
				t.Fatalf("%s is there twice", k)
			} else {
				seen[k] = true
			}
		}
	})
}
