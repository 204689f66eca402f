package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// updates names the session updates from a message on, without partial outputs.
func updates(t *testing.T, messages []rig.Message) []string {
	t.Helper()
	var out []string
	for _, m := range messages {
		if m.Method != "session/update" {
			continue
		}
		var p struct {
			Update struct {
				SessionUpdate, Title, Status string
				Content                      json.RawMessage
			}
		}
		m.Into(t, &p)
		var text struct{ Text string }
		_ = json.Unmarshal(p.Update.Content, &text) // of a message
		name := strings.Join(strings.Fields(p.Update.SessionUpdate+" "+p.Update.Title+" "+text.Text+" "+p.Update.Status), " ")
		if n := len(out); p.Update.SessionUpdate == "usage_update" || p.Update.SessionUpdate == "tool_call_update" && p.Update.Status == "" {
			continue
		} else if n > 0 && p.Update.SessionUpdate == "agent_message_chunk" && strings.HasPrefix(out[n-1], p.Update.SessionUpdate) {
			out[n-1] += text.Text
			continue
		}
		out = append(out, name)
	}
	return out
}

// editor starts gantry acp and opens a session in the folder of the rig.
func editor(t *testing.T, r *rig.Rig, args ...string) (c *rig.Client, session string) {
	t.Helper()
	c = r.Agent(args...)
	var greeting struct {
		ProtocolVersion int
		AgentInfo       struct{ Name string }
	}
	c.Call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, &greeting)
	if greeting.ProtocolVersion != 1 || greeting.AgentInfo.Name != "gantry" {
		t.Errorf("%+v", greeting)
	}
	var s struct{ SessionID string }
	c.Call("session/new", map[string]any{"cwd": r.Dir, "mcpServers": []any{}}, &s)
	c.Notified("session/update") // the commands
	return c, s.SessionID
}

// prompt sends a prompt and returns the ID of the request.
func prompt(c *rig.Client, session, text string) string {
	return c.Request("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}})
}

// stopped waits for the end of a prompt's turn.
func stopped(t *testing.T, c *rig.Client, id, want string) {
	t.Helper()
	m := c.Reply(id)
	if m.Error != nil || string(m.Result) != fmt.Sprintf(`{"stopReason":%q}`, want) {
		t.Errorf("%s %+v, want %s", m.Result, m.Error, want)
	}
}

// An editor asks for a change, declines it, accepts it, and opens the session again in another process.
func TestEditor(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when  = { user = "^change", since_user = 0 }
times = -1
do    = [{ call = "apply_patch", freeform = "*** Begin Patch\n*** Add File: new.txt\n+a line\n*** End Patch\n" }]
[[step]]
times = -1
do    = [{ text = "done with ${user}" }]
`)
	c, session := editor(t, r, "-c", "approval.policy=untrusted")
	for _, tt := range []struct{ option, status string }{{"deny", "failed"}, {"approve", "completed"}} {
		from := len(c.All)
		id := prompt(c, session, "change "+tt.option)
		asked := c.Notified("session/request_permission")
		var p struct {
			ToolCall struct {
				Content []struct{ Type, Path, NewText string }
			}
			Options []struct{ OptionID, Kind string }
		}
		asked.Into(t, &p)
		if len(p.ToolCall.Content) == 0 || p.ToolCall.Content[0].Type != "diff" || p.ToolCall.Content[0].NewText != "a line\n" ||
			!slices.ContainsFunc(p.Options, func(o struct{ OptionID, Kind string }) bool { return o.OptionID == tt.option }) {
			t.Errorf("%s", asked.Params)
		}
		c.Answer(asked, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": tt.option}})
		stopped(t, c, id, "end_turn")
		got := updates(t, c.All[from:])
		if tt.option == "deny" {
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "session_info_update") })
		}
		want := []string{"tool_call Create new.txt in_progress", "tool_call_update Create new.txt " + tt.status, "agent_message_chunk done with change " + tt.option}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, "new.txt")); (err == nil) != (tt.option == "approve") {
			t.Errorf("%s: %v", tt.option, err)
		}
	}
	c.Close()

	c, _ = editor(t, r)
	var list struct {
		Sessions []struct{ SessionID, Title, Cwd string }
	}
	c.Call("session/list", map[string]any{"cwd": r.Dir}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != session || list.Sessions[0].Title != "change deny" {
		t.Errorf("%+v", list)
	}
	from := len(c.All)
	c.Call("session/load", map[string]any{"sessionId": session, "cwd": r.Dir, "mcpServers": []any{}}, nil)
	want := []string{
		"user_message_chunk change deny", "tool_call Create new.txt failed", "agent_message_chunk done with change deny",
		"user_message_chunk change approve", "tool_call Create new.txt completed", "agent_message_chunk done with change approve",
		"session_info_update change deny",
	}
	if got := updates(t, c.All[from:]); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	stopped(t, c, prompt(c, session, "go on"), "end_turn")
}

// A cancellation ends a command with its turn, and the process ends with standard input.
func TestEditorCancels(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("echo begun; sleep 1000"))
	c, session := editor(t, r)
	id := prompt(c, session, "go")
	c.Until(func(m rig.Message) bool { return strings.Contains(string(m.Params), "begun\\n```") })
	c.Send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"` + session + `"}}`)
	stopped(t, c, id, "cancelled")
	code, message := c.Refused("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "audio"}}})
	if code != -32602 || !strings.HasPrefix(message, "prompt[0].type: ") {
		t.Errorf("%d %s", code, message)
	}
	c.Send(`{"jsonrpc":"2.0","id":99,"method":"session/prompt","params":{"sessionId":"` + session + `","prompt":[{"type":"text","text":"again"}]}}`)
	c.Until(func(m rig.Message) bool { return strings.Contains(string(m.Params), "begun\\n```") })
	c.Close() // the test fails if the process does not end without an error
}

// The process that runs a thread is killed while an editor shows it. The editor learns what has become of the turn, and of the next one
// that another process runs, without a prompt of its own.
func TestEditorFollowsTheNextOwner(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { user = "^run", since_user = 0 }
times = -1
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch made", login = false } }]
[[step]]
times = -1
do = [{ text = "heard ${user}" }]
`)
	first := r.Terminal("exec", "-c", "approval.policy=untrusted", "run it")
	first.Sees("answer: ")
	thread := threads(t, r)[0].ID
	c := r.Agent()
	c.Call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, nil)
	c.Call("session/load", map[string]any{"sessionId": thread, "cwd": r.Dir, "mcpServers": []any{}}, nil)
	c.Notified("session/request_permission")
	first.Signal(os.Kill)
	first.Wait()
	c.Until(func(m rig.Message) bool {
		return m.Method == "session/update" && strings.Contains(string(m.Params), `"toolCallId":"c1"`) && strings.Contains(string(m.Params), `"status":"failed"`)
	})
	r.OK("resume", thread, "go on")
	c.Until(func(m rig.Message) bool { return strings.Contains(string(m.Params), "heard go on") })
	if exists(r.Dir, "made") {
		t.Error("the command ran")
	}
}
