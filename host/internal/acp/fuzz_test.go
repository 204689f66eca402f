package acp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/acp"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// FuzzFrames sends arbitrary lines to an agent: every request with a valid ID is answered, and whatever the agent sends is JSON-RPC 2.0.
func FuzzFrames(f *testing.F) {
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}` + "\n"
	f.Add([]byte(hello + `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"relative","mcpServers":[]}}`))
	f.Add([]byte(hello + `{"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"sessionId":"x","prompt":[{"type":"text","text":"hi"}]}}` +
		"\n" + `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}`))
	f.Add([]byte(hello + `{"jsonrpc":"2.0","id":-7,"method":"session/load","params":{"sessionId":"01a20e55-eea7-7bf0-b27f-480cea2baedf","cwd":"/","mcpServers":[]}}`))
	f.Add([]byte(hello + `{"id":3,"method":"session/list","params":{"cursor":"?"}}` + "\n" + `{"id":3,"method":"session/list"}` + "\n" + `{"id":4,"method":"_more"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"magic"}}` + "\n[]\n{\n\n" + `{"id":1.5,"method":"a"}` + "\n" +
		`{"id":7,"result":{"outcome":{"outcome":"cancelled"}}}` + "\n" + `{"id":7,"error":5}`))
	f.Add([]byte(hello + `{"jsonrpc":"2.0","id":1,"method":"session/set_mode","params":{"sessionId":"x","modeId":"y"}}` + "\n" + hello))
	h, dir := newHub(f, "never"), f.TempDir()
	f.Fuzz(func(t *testing.T, in []byte) {
		want := map[rpc.ID]int{}
		lines := bytes.Split(in, []byte("\n"))
		if len(lines) > 50 { // too many wrong ones close the connection
			return
		}
		for _, line := range lines {
			var m map[string]json.RawMessage
			var id rpc.ID
			var method *string
			if utf8.Valid(line) && json.Unmarshal(line, &m) == nil && json.Unmarshal(m["id"], &id) == nil && !id.IsZero() &&
				json.Unmarshal(m["method"], &method) == nil && method != nil {
				want[id]++
			}
		}
		var out bytes.Buffer
		cfg := acp.Config{Hub: h, Version: "1.2.3", Workspace: hub.Workspace{Dir: dir}, Login: []string{"/bin/gantry", "login"}}
		if err := acp.Serve(context.WithoutCancel(t.Context()), cfg, rpc.Lines(bytes.NewReader(in), &out, nil)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			var m struct {
				Version string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Method  string          `json:"method"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
				t.Fatalf("%q: %v", line, err)
			}
			var id rpc.ID
			if m.Method == "" && json.Unmarshal(m.ID, &id) == nil {
				want[id]--
			}
		}
		for id, n := range want {
			if n > 0 {
				t.Errorf("%v: %d requests are not answered:\n%s", id, n, out.String())
			}
		}
	})
}
