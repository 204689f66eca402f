package e2e_test

import (
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// text is the input of a request.
func text(s string) []any { return []any{map[string]any{"type": "text", "text": s}} }

// userMessages returns the texts of a thread's messages of the user, each with the client's ID of it.
func userMessages(c *rig.Client, thread string) (out []string) {
	var read struct {
		Thread struct {
			Turns []struct {
				Items []struct {
					Type, ClientID string
					Content        []struct{ Text string }
				}
			}
		}
	}
	c.Call("thread/read", map[string]any{"threadId": thread, "includeTurns": true}, &read)
	for _, turn := range read.Thread.Turns {
		for _, item := range turn.Items {
			if item.Type == "userMessage" {
				out = append(out, item.Content[0].Text+" "+item.ClientID)
			}
		}
	}
	return out
}

// A client that does not know whether its message has arrived sends it again: within the turn, after it, and after a restart of the
// server. The answer is the first turn, and the message is in the thread once.
func TestAppServerRepeatedMessage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch running; until [ -e go ]; do sleep 0.01; done"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	type started struct{ Turn struct{ ID, Status string } }
	params := map[string]any{"threadId": thread, "input": text("hi"), "clientUserMessageId": "m1"}
	var first, second, third started
	c.Call("turn/start", params, &first)
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	if c.Call("turn/start", params, &second); second != first || first.Turn.Status != "inProgress" {
		t.Errorf("during the turn: %+v, want %+v", second, first)
	}
	r.Write("go", "")
	c.Notified("turn/completed")
	c.Close()

	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	if c.Call("turn/start", params, &third); third.Turn.ID != first.Turn.ID || third.Turn.Status != "completed" {
		t.Errorf("after a restart: %+v, want %+v", third, first)
	}
	params["clientUserMessageId"], params["input"] = "m2", text("more")
	c.Call("turn/start", params, nil)
	c.Notified("turn/completed")
	if got := userMessages(c, thread); !slices.Equal(got, []string{"hi m1", "more m2"}) {
		t.Errorf("%q", got)
	}
}
