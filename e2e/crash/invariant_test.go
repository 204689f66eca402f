package crash_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// stored tells whether the rig's thread can be listed, and whether it has the task.
func stored(t *testing.T, r *rig.Rig) (thread, task bool) {
	ids := list(t, r)
	if len(ids) == 0 {
		return false, false
	}
	return true, strings.Contains(r.OK("threads", "show", "--events", ids[0]).Stdout, `"the task"`)
}

func list(t *testing.T, r *rig.Rig) []string {
	t.Helper()
	var all []struct{ ID string }
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &all); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range all {
		out = append(out, a.ID)
	}
	return out
}

// check holds the invariants against the last request, the files and the log.
func check(t *testing.T, r *rig.Rig) {
	t.Helper()
	q := r.Last()
	paired(t, q)
	truthful(t, r, q)
	if texts := q.Texts(llm.RoleUser); !slices.Contains(texts, "the task") {
		t.Errorf("the task is lost; the model reads %q", texts)
	}
	ids := list(t, r)
	if len(ids) != 1 {
		t.Errorf("threads %v, want one", ids)
	}
	rig.Gapless(t, rig.Events(t, r.OK("threads", "show", "--events", ids[0]).Stdout), 1)
}

// paired: each call has exactly one output, after it, and each output a call.
func paired(t *testing.T, q rig.Request) {
	t.Helper()
	calls, outputs := map[string]int{}, map[string]int{}
	for _, m := range q.Request.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				calls[p.ID]++
				if calls[p.ID] > 1 {
					t.Errorf("the call %s is there %d times", p.ID, calls[p.ID])
				}
			case *llm.ToolResult:
				outputs[p.ID]++
				if calls[p.ID] == 0 {
					t.Errorf("an output of %s comes before its call", p.ID)
				}
			}
		}
	}
	for id := range calls {
		if outputs[id] != 1 {
			t.Errorf("the call %s has %d outputs", id, outputs[id])
		}
	}
	for _, id := range append(slices.Clone(commands), "c3") {
		if calls[id] == 0 {
			t.Errorf("the call %s was never made", id)
		}
	}
}

// What the model may be told of a call, and how often the call can then have had its effect.
var told = []struct {
	text     string
	min, max int
}{
	{"outcome unknown", 0, 1},
	{"whether it had an effect is unknown", 0, 1},
	{"had no effect", 0, 0},
	{"did not reach its plugin", 0, 0},
	{"unsupported", 0, 0}, // the plugin never came up, so its tools were not there
	{"Process exited with code 0", 1, 1},
	{"Success. Updated the following files", 1, 1},
}

// truthful: no effect is repeated, and none contradicts what the model was told of it.
func truthful(t *testing.T, r *rig.Rig, q rig.Request) {
	t.Helper()
	effects := map[string]int{}
	for _, id := range strings.Fields(r.Read("ran")) {
		effects[id]++
	}
	switch f := r.Read("f"); f {
	case "before\n":
	case "after\n":
		effects["c3"] = 1
	default:
		t.Errorf("f is torn: %q", f)
	}
	out := q.Outputs()
	for _, id := range append(slices.Clone(commands), "c3") {
		i := slices.IndexFunc(told, func(k struct {
			text     string
			min, max int
		}) bool {
			return strings.Contains(out[id], k.text)
		})
		if i < 0 {
			t.Errorf("the model reads of %s: %q, which says nothing of its effect", id, out[id])
			continue
		}
		if n := effects[id]; n < told[i].min || n > told[i].max {
			t.Errorf("%s had its effect %d times; the model reads %q", id, n, out[id])
		}
	}
}
