package turn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Over twenty turns in which everything around the model changes, each request is the one before and something more, byte for
// byte: what providers cache stays good.
func TestPrefixOfRequestsIsStable(t *testing.T) {
	const turns = 20
	var answers []turntest.Answer
	for i := range turns {
		answers = append(answers,
			turntest.Say(turntest.Text("I look."), turntest.Call(fmt.Sprint("a", i), "edit", `{}`), turntest.Call(fmt.Sprint("b", i), "nope", `{}`)),
			turntest.Say(turntest.Text("done")))
	}
	b := turntest.New(answers...)
	s := prompt.State{
		Base: "base", Instructions: "base", Permissions: event.Permissions{Approval: "never", Sandbox: "full-access"},
		Environment: event.Environment{Cwd: "/w", Shell: "bash", Timezone: "UTC", Network: "enabled"},
	}
	edits := 0
	b.Tools = []turntest.Tool{{
		Descriptor: contract.Descriptor{Name: "edit", ParallelSafe: true},
		Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			if edits++; edits%3 == 0 {
				s.Agents.Text = fmt.Sprint("rule ", edits)
			}
			if edits%4 == 0 {
				s.Contexts = map[string]map[string]string{"browser": {"tabs": fmt.Sprint("tab ", edits)}}
			}
			return contract.Text("edited"), nil
		},
	}}
	b.Context = func(last *event.Reference) []prompt.Section {
		return s.Sections(last)
	}
	for i := range turns {
		s.Environment.Date = fmt.Sprintf("2026-11-%02d", 1+i/2)
		s.Environment.Cwd = fmt.Sprint("/w", i/5)
		s.Agents.Dir = s.Environment.Cwd
		switch i {
		case 7:
			s.Permissions.Approval = "untrusted"
		case 11:
			s.Instructions = "own"
		case 13:
			s.Plugins = "## shell\nquote"
		case 17:
			s.Agents.Text = ""
		}
		b.Inbox = &turn.Inbox{}
		if res := b.Run(t, t.Context(), fmt.Sprint("task ", i)); res.Status != event.TurnCompleted {
			t.Fatalf("turn %d: %+v", i, res)
		}
	}
	sent := b.Sent()
	if len(sent) != 2*turns {
		t.Fatalf("%d requests, want %d", len(sent), 2*turns)
	}
	var last []byte
	for i, r := range sent {
		now, err := json.Marshal(r.Messages)
		if err != nil {
			t.Fatal(err)
		}
		now = bytes.TrimSuffix(now, []byte("]"))
		if i > 0 && (!bytes.HasPrefix(now, append(last, ','))) {
			t.Fatalf("request %d does not go on where the one before ended:\n%s\nbefore:\n%s", i+1, now, last)
		}
		last = now
	}
	for _, want := range []string{"2026-11-10", "rule 3", "rule 15", "tab 20", "model_switch", "plugins_instructions", "do not hold any more", "/w3", "asked before everything"} {
		if !bytes.Contains(last, []byte(want)) {
			t.Errorf("the model was never told of %q", want)
		}
	}
}
