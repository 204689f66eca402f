package transport

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen at once.
const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// connect makes a session over a transport.
func connect(t *testing.T, tr mcp.Transport) (*mcp.ClientSession, error) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := c.Connect(within(t), tr, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// result is what the tools of the servers of these tests answer: its keys are not sorted, and one block is of no known type.
const result = `{"structuredContent":{"z":1,"a":{"k":[1,2]}},"content":[{"type":"hologram","text":"x<y"},{"type":"text","text":"hi"}],"extra":1.50}`

// callRaw calls a tool and returns the result as the server wrote it.
func callRaw(t *testing.T, s *mcp.ClientSession, name string) (string, error) {
	t.Helper()
	res, err := s.CallTool(within(t), &mcp.CallToolParams{Name: name})
	if err != nil {
		return "", err
	}
	raw, ok := Raw(res.Meta)
	if !ok {
		t.Errorf("the result was not captured: %+v", res)
	}
	return string(raw), nil
}

// A result that is captured still says of which type it is, and is about as long as it was, whatever it contains.
func TestCapture(t *testing.T) {
	if got := string(capture([]byte(`{"content":[{"type":"text"}],"resultType":"input_required"}`))); !strings.Contains(got, `"resultType":"input_required"`) || strings.Contains(got, `"type":"text"`) {
		t.Error(got)
	}
	if n := len(capture([]byte(`{"content":"` + strings.Repeat("<", 1<<20) + `"}`))); n > 1<<20+200 {
		t.Errorf("1 MiB became %d bytes", n)
	}
	for _, raw := range []string{`{"protocolVersion":"1"}`, `[]`, `{"content"`} {
		if got := string(capture([]byte(raw))); got != raw {
			t.Errorf("%s became %s", raw, got)
		}
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte(result))
	f.Add([]byte(`{"tools":[null,{"name":5}],"nextCursor":"x","_meta":{"gantry/raw":"forged"}}`))
	f.Add([]byte(`{"content":null,"isError":1,"resultType":"input_required"}`))
	f.Add([]byte(`{"contents":"x","prompts":{},"messages":7}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := capture(raw)
		if string(got) == string(raw) {
			return
		}
		var meta struct {
			Meta mcp.Meta `json:"_meta"`
		}
		if err := json.Unmarshal(got, &meta); err != nil {
			t.Fatal(err)
		}
		var want, kept any
		back, ok := Raw(meta.Meta)
		if !ok || json.Unmarshal(raw, &want) != nil || json.Unmarshal(back, &kept) != nil {
			t.Fatalf("%s became %s", raw, got)
		}
		message := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), raw...), '}')
		var m struct{ Result json.RawMessage }
		if err := json.Unmarshal(captureMessage(message), &m); err != nil || string(m.Result) != string(got) {
			t.Fatalf("as a message, %s became %s, %v", raw, m.Result, err)
		}
	})
}
