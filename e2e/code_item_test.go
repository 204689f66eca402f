package e2e_test

import (
	"strings"
	"testing"
)

// Code is displayed in every front end, also when it is read from the log: as a command where a format has no code.
func TestCodeInFrontEnds(t *testing.T) {
	t.Parallel()
	r := newPython(t, cell("c1", "6 * 7")+"[[step]]\ndo = ["+execCall("e1", "text(6 * 7)")+"]\n"+done)
	r.Config(codemodeOn)
	if out := r.OK("exec", "go").Stderr; !strings.Contains(out, "python> 6 * 7") || !strings.Contains(out, "javascript> ") {
		t.Errorf("exec:\n%s", out)
	}
	if out := r.OK("exec", "--json", "go").Stdout; strings.Count(out, `"type":"command_execution","command":"6 * 7"`) != 2 || !strings.Contains(out, `"type":"command_execution","command":"text(6 * 7)"`) {
		t.Errorf("exec --json:\n%s", out)
	}
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "go")
	c.Notified("turn/completed")
	var read struct {
		Thread struct {
			Turns []struct {
				Items []struct{ Type, Command, Source, Status string }
			}
		}
	}
	c.Call("thread/read", map[string]any{"threadId": thread, "includeTurns": true}, &read)
	var commands []string
	for _, turn := range read.Thread.Turns {
		for _, it := range turn.Items {
			if it.Type == "commandExecution" {
				commands = append(commands, it.Source+" "+it.Status+" "+strings.TrimSpace(it.Command))
			}
		}
	}
	if got := strings.Join(commands, "|"); got != "agent completed 6 * 7|agent completed text(6 * 7)" {
		t.Errorf("the app server has %q", got)
	}
	c.Close()
	if out := r.OK("threads", "export", thread).Stdout; !strings.Contains(out, `"type":"code"`) || !strings.Contains(out, `"language":"python"`) || !strings.Contains(out, `"language":"javascript"`) {
		t.Errorf("export:\n%s", out)
	}
	e, session := editor(t, r)
	e.Call("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": "go"}}}, nil)
	e.Close()
	list := strings.Join(updates(t, e.Ended()), "\n")
	if !strings.Contains(list, "tool_call 6 * 7") || !strings.Contains(list, "tool_call text(6 * 7)") {
		t.Errorf("ACP:\n%s", list)
	}
	r.NothingLeft()
}
