package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

const planScript = `
[[step]]
do = [{ call = "update_plan", id = "p1", args = { explanation = "first things first", plan = [{ step = "look", status = "in_progress" }, { step = "write", status = "pending" }] } }]
[[step]]
do = [{ call = "update_plan", id = "p2", args = { plan = [{ step = "look", status = "completed" }, { step = "write", status = "completed" }], note = 1 } }]
[[step]]
do = [{ call = "update_plan", id = "p3", args = { plan = [{ step = "look", status = "completed" }, { step = "write", status = "in_progress" }] } }]
[[step]]
do = [{ text = "done" }]
`

// A model's plan is shown on the terminal, in JSON lines and to clients, without a question and without an item.
func TestPlan(t *testing.T) {
	t.Parallel()
	t.Run("terminal", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, planScript)
		res := r.Gantry("exec", "go")
		if res.Code != 0 || !strings.Contains(res.Stderr, "• plan\n  first things first\n  ▸ look\n  ○ write\n") || !strings.Contains(res.Stderr, "• plan\n  ✓ look\n  ▸ write\n") {
			t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
		}
		outs := r.Last().Outputs()
		if outs["p1"] != "Plan updated" || outs["p3"] != "Plan updated" || !strings.Contains(outs["p2"], "note") {
			t.Errorf("the model reads %q", outs)
		}
		if q := r.Gantry("exec", "-c", "interaction.plan=false", "go"); q.Code != 0 || !strings.Contains(r.Last().Outputs()["p1"], "update_plan") || strings.Contains(q.Stderr, "• plan\n") {
			t.Errorf("turned off, the model reads %q", r.Last().Outputs()["p1"])
		}
	})
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, planScript)
		res := r.Gantry("exec", "--json", "go")
		var lists []string
		for line := range strings.Lines(res.Stdout) {
			var l struct {
				Type string
				Item struct {
					ID, Type string
					Items    []struct {
						Text      string
						Completed bool
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l.Item.Type == "todo_list" {
				done := 0
				for _, i := range l.Item.Items {
					if i.Completed {
						done++
					}
				}
				lists = append(lists, l.Item.ID+" "+l.Type+" "+strings.Repeat("x", done))
			}
		}
		if len(lists) != 3 || !strings.HasSuffix(lists[0], " item.started ") || !strings.HasSuffix(lists[1], " item.updated x") || !strings.HasSuffix(lists[2], " item.completed x") {
			t.Errorf("lists %q in\n%s", lists, res.Stdout)
		}
	})
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, planScript)
		c := r.Serve("unix").Connect()
		c.Call("initialize", object{"clientInfo": object{"name": "test", "version": "1"}}, nil)
		thread := begin(t, c, object{})
		submit(t, c, thread, "go")
		c.Notified("turn/completed")
		var plans []string
		for _, m := range c.All {
			switch {
			case m.Method == "turn/plan/updated":
				plans = append(plans, string(m.Params))
			case strings.HasPrefix(m.Method, "item/") && strings.Contains(string(m.Params), `"p1"`):
				t.Errorf("%s of the plan's call", m.Method)
			}
		}
		if !slices.ContainsFunc(plans, func(p string) bool {
			return strings.Contains(p, `"explanation":"first things first","plan":[{"step":"look","status":"inProgress"},{"step":"write","status":"pending"}]`)
		}) || len(plans) != 2 {
			t.Errorf("plans %q", plans)
		}
	})
}
