package orchestrate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// leaver is a plugin whose calls leave a session, outside of the sandbox or not, break, or type into one.
type leaver struct{ *bench }

type leaves struct {
	Leave, Type    string
	Text, Language string
	Outside, Break bool
}

func (leaver) Assess(_ context.Context, r contract.AssessRequest) (*contract.Assessment, error) {
	var in leaves
	if err := json.Unmarshal(r.Input.Arguments, &in); err != nil {
		return nil, err
	}
	a := &contract.Assessment{Summary: "s", Item: &contract.CommandItem{Command: "x"}, Digest: "d"}
	if in.Outside {
		a.Escalation = &contract.Escalation{Unsandboxed: true}
	}
	if in.Type != "" {
		a.Effects = []contract.Effect{contract.SessionInputEffect{SessionID: in.Type, Text: cmp.Or(in.Text, "ls\n"), Language: in.Language}}
	}
	return a, nil
}

func (leaver) Call(_ context.Context, s contract.CallStart, _ tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	var in leaves
	if err := json.Unmarshal(s.Input.Arguments, &in); err != nil {
		return nil, err
	}
	if in.Break {
		return nil, errors.New("broken")
	}
	r := contract.Text("ok")
	r.SessionID = in.Leave
	return r, nil
}

// The host records which sessions run outside of the sandbox, for later turns as well. A call without a result may have left any session.
func TestTypingOutsideIsKnown(t *testing.T) {
	p := leaver{&bench{}}
	reg := registry.New()
	d := contract.Descriptor{Name: "do", Assess: true, InputSchema: json.RawMessage(`{"type":"object"}`)}
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	tokens := orchestrate.NewTokens()
	var saw []bool
	do := func(thread event.ThreadID, args string) {
		pipeline := orchestrate.New(orchestrate.Deps{ // one for each turn
			Hooks: p, Approver: p, Granter: p, Journal: p, Retry: orchestrate.NoRetry, Processes: p,
			Policy: func(r policy.Request) policy.Decision {
				if len(r.Effects) > 0 {
					saw = append(saw, r.Outside)
				}
				return policy.Decision{Verdict: policy.Run, Wider: r.Escalation}
			},
			Backends: func(string) (orchestrate.ToolBackend, bool) { return p, true },
		}, tokens, hclog.NewNullLogger())
		var gate orchestrate.Gate
		id := fmt.Sprint("c", len(saw))
		pipeline.Dispatch(t.Context(), &gate, orchestrate.Call{
			Settings: orchestrate.Settings{Thread: thread, Turn: "u", Tools: reg.Snapshot(), Output: history.Policy{Limit: 100}},
			Model:    &llm.ToolCall{ID: id, Name: "do", Input: args}, ID: event.CallID(id),
		}).Wait()
	}
	do("t", `{"leave":"7","outside":true}`)
	do("t", `{"leave":"8"}`)
	do("t", `{"type":"7"}`)
	do("t", `{"type":"7","text":"x = 1","language":"python"}`)
	do("t", `{"type":"8"}`)
	do("other", `{"type":"7"}`)
	do("t", `{"break":true}`)
	do("t", `{"type":"8"}`)
	do("t", `{"break":true,"outside":true}`)
	do("t", `{"type":"8"}`)
	do("other", `{"type":"8"}`)
	if want := []bool{true, true, false, false, false, true, false}; !slices.Equal(saw, want) {
		t.Errorf("outside: %v, want %v", saw, want)
	}
}

// The incomplete line of each session is known when more is typed.
func TestTypedLineIsKnown(t *testing.T) {
	p := leaver{&bench{}}
	reg := registry.New()
	d := contract.Descriptor{Name: "do", Assess: true, InputSchema: json.RawMessage(`{"type":"object"}`)}
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	tokens := orchestrate.NewTokens()
	var saw []string
	verdict := policy.Run
	do := func(thread event.ThreadID, args string) {
		pipeline := orchestrate.New(orchestrate.Deps{
			Hooks: p, Approver: p, Granter: p, Journal: p, Retry: orchestrate.NoRetry, Processes: p,
			Policy: func(r policy.Request) policy.Decision {
				saw = append(saw, r.Typed.All)
				return policy.Decision{Verdict: verdict}
			},
			Backends: func(string) (orchestrate.ToolBackend, bool) { return p, true },
		}, tokens, hclog.NewNullLogger())
		var gate orchestrate.Gate
		pipeline.Dispatch(t.Context(), &gate, orchestrate.Call{
			Settings: orchestrate.Settings{Thread: thread, Turn: "u", Tools: reg.Snapshot(), Output: history.Policy{Limit: 100}},
			Model:    &llm.ToolCall{ID: "c", Name: "do", Input: args}, ID: "c",
		}).Wait()
	}
	do("t", `{"type":"7","text":"rm "}`)
	do("t", `{"type":"8","text":"x"}`)
	do("other", `{"type":"7","text":"y"}`)
	verdict = policy.Forbid
	do("t", `{"type":"7","text":"-f z"}`)
	verdict = policy.Run
	do("t", `{"type":"7","text":"-r z"}`)
	do("t", `{"type":"7","text":"\n"}`)
	do("t", `{"type":"7","text":"ls"}`)
	do("t", `{"type":"9","text":"x = 1","language":"python"}`) // neither is remembered nor continues a line
	do("t", `{"type":"9","text":"x","language":"python"}`)
	do("t", `{"type":"9","text":"ls"}`)
	if want := []string{"", "", "", "rm ", "rm ", "rm -r z", "", "", "", ""}; !slices.Equal(saw, want) {
		t.Errorf("it stood there: %q, want %q", saw, want)
	}
}
