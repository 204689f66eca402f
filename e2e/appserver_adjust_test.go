package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// fastModel is another model of the scripted provider.
const fastModel = `
model "fast" {
  provider = "scripted"
  name     = "scripted-fast"
}

model "away" {
  provider = "missing"
  name     = "x"
}

provider "missing" {
  source = "builtin/scripted"
  script = "/no/such/script.toml"
}
`

// The settings of a running turn apply from its next request on, and to no other turn. The client may be one of another process.
func TestTurnSettingsUpdate(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		name := map[bool]string{false: "own process", true: "another process"}[remote]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, lookupScript)
			r.Config(fastModel)
			owner := r.AppServer()
			greet(t, owner)
			thread := begin(t, owner, weatherTools())
			turn := submit(t, owner, thread, "one")
			q := owner.Notified("item/tool/call")
			c := owner
			if remote {
				c = r.AppServer()
				greet(t, c)
				c.Call("thread/resume", object{"threadId": thread}, nil)
			}
			update := func(want string, params object) {
				t.Helper()
				var res struct{ Status string }
				params["threadId"] = thread
				if c.Call("turn/settings/update", params, &res); res.Status != want {
					t.Errorf("%v: %s, want %s", params, res.Status, want)
				}
			}
			update("applied", object{"turnId": turn})
			update("applied", object{"turnId": turn, "model": "fast", "effort": "low"})
			update("applied", object{"turnId": turn, "effort": "high", "summary": "auto", "approvalsReviewer": "user"})
			update("targetUnavailable", object{"turnId": "another", "model": "fast"})
			update("targetUnavailable", object{"turnId": "another"})
			for _, refused := range []object{
				{"turnId": turn, "model": "none"}, {"turnId": "", "model": "fast"}, {"turnId": turn, "approvalsReviewer": "auto_review"},
				{"turnId": turn, "environments": []any{object{"environmentId": "x", "cwd": "/"}}},
			} {
				refused["threadId"] = thread
				if code, message := c.Refused("turn/settings/update", refused); message == "" || code != -32600 && code != -32602 {
					t.Errorf("%v: %d %s", refused, code, message)
				}
			}
			owner.Answer(q, inputText("sunny"))
			owner.Notified("turn/completed")
			if last := r.Last().Request; last.Model != "scripted-fast" || last.ReasoningEffort != "high" {
				t.Errorf("asked %s with the effort %q", last.Model, last.ReasoningEffort)
			}
			update("targetUnavailable", object{"turnId": turn, "model": "fast"})
			submit(t, owner, thread, "two")
			q = owner.Notified("item/tool/call")
			if last := r.Last().Request; last.Model != "scripted" || last.ReasoningEffort != "" {
				t.Errorf("the next turn asked %s with the effort %q", last.Model, last.ReasoningEffort)
			}
			owner.Answer(q, inputText("sunny"))
			owner.Notified("turn/completed")
		})
	}
}

// A model that can't be opened does not end the turn: it continues as before, and says so.
func TestTurnSettingsUpdateToAModelThatIsAway(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	r.Config(fastModel)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, weatherTools())
	turn := submit(t, c, thread, "one")
	q := c.Notified("item/tool/call")
	c.Call("turn/settings/update", object{"threadId": thread, "turnId": turn, "model": "away"}, nil)
	c.Answer(q, inputText("sunny"))
	end := c.Notified("turn/completed")
	if !strings.Contains(string(end.Params), `"status":"completed"`) || r.Last().Request.Model != "scripted" {
		t.Errorf("asked %s: %s", r.Last().Request.Model, end.Params)
	}
	if !slices.ContainsFunc(c.All, func(m rig.Message) bool {
		return m.Method == "warning" && strings.Contains(string(m.Params), "the turn continues with its settings: ")
	}) {
		t.Error("no warning")
	}
}
