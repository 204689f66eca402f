package hosttool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// pickColour is a host tool as a package of its own would have it: the user picks a colour. Models that see images are offered it,
// others may call it, and threads without a sandbox do not have it.
func pickColour() hosttool.Tool {
	return hosttool.Tool{
		Label: "gantry:colour",
		Descriptor: contract.Descriptor{
			Name: "pick_colour", Description: "Picks a colour.", ReadOnly: true,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"for":{"type":"string"}},"required":["for"]}`),
		},
		Offer: func(c hosttool.Conditions) hosttool.Offer {
			switch {
			case c.Sandbox == policy.FullAccess:
				return hosttool.Absent
			case !slices.Contains(c.Model.Traits(), "images"):
				return hosttool.Hidden
			}
			return hosttool.Offered
		},
		HostTool: orchestrate.HostTool{Backend: hosttool.Func(runPickColour).Backend},
	}
}

func runPickColour(ctx context.Context, c *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
	var args struct{ For string }
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return nil, registry.ArgumentsError(err)
	}
	a, err := c.Ask(ctx, approval.Question{About: event.QuestionApproval, Title: "a colour for " + args.For, Options: []string{"red", "blue", approval.Abort}})
	if refused, ok := errors.AsType[*orchestrate.RefusedError](err); ok {
		c.AddContext("the user's favourite colour is grey")
		return contract.ErrorText("no colour: " + refused.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	return contract.Text(args.For + " is " + a.Choice), nil
}

// A host tool is an entry in the table: the pipeline, the catalogue and the turn treat it like every other one.
func TestAddingAHostTool(t *testing.T) {
	for _, tc := range []struct {
		name     string
		answer   string // empty: nobody can be asked
		images   bool
		args     string
		want     string // part of the second request
		finished bool
	}{
		{"answered", "blue", true, `{"for":"the door"}`, "output c1: the door is blue", true},
		{"hidden and called all the same", "red", false, `{"for":"the door"}`, "output c1: the door is red", true},
		{"nobody to ask", "", true, `{"for":"the door"}`, "no colour: there is nobody to ask", true},
		{"arguments", "red", true, `{"for":7}`, "failed to parse function arguments: `for`: ", true},
		{"aborted", approval.Abort, true, `{"for":"the door"}`, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := turntest.New(turntest.Say(turntest.Call("c1", "pick_colour", tc.args)), turntest.Say(turntest.Text("done")))
			b.HostTools = hosttool.New(pickColour())
			if tc.images {
				b.Row.InputModalities = []string{"text", "image"}
			}
			if tc.answer != "" {
				defer b.Broker.Attend()()
				b.Broker.OnQuestion(func(q event.QuestionAsked) {
					if q.Call != "c1" || q.Title != "a colour for the door" {
						t.Errorf("asked %+v", q)
					}
					if err := b.Broker.Resolve(q.ID, approval.Answer{Choice: tc.answer, By: "user"}); err != nil {
						t.Error(err)
					}
				})
			}
			res := b.Run(t, t.Context(), "go")
			if finished := res.Status == event.TurnCompleted; finished != tc.finished {
				t.Fatalf("%+v", res)
			}
			offered := slices.ContainsFunc(b.Sent()[0].Tools, func(tl llm.Tool) bool { return tl.Name == "pick_colour" })
			if offered != tc.images {
				t.Errorf("the model is offered it: %v", offered)
			}
			if !tc.finished {
				return
			}
			said := b.Requests()[1]
			if !strings.Contains(said, tc.want) {
				t.Errorf("%s does not say %q", said, tc.want)
			}
			if grey := strings.Contains(said, "system: the user's favourite colour is grey"); grey != (tc.answer == "") {
				t.Errorf("context given: %v\n%s", grey, said)
			}
		})
	}
	table := append(hosttool.Default(), hosttool.New(pickColour())...)
	s := table.Extend(registry.New().Snapshot(), hosttool.Conditions{Sandbox: policy.FullAccess})
	if _, ok := s.Lookup("", "pick_colour"); ok {
		t.Error("a thread without a sandbox has it")
	}
}

// A plugin can have neither the name nor the label of a host tool, and it is told whose name it is.
func TestHostToolsAreReserved(t *testing.T) {
	table := append(hosttool.Default(), hosttool.New(pickColour())...)
	r := registry.New("p")
	table.Reserve(r)
	for i := range table {
		d := contract.Descriptor{Name: table[i].Descriptor.Name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}})
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), table[i].Label) {
			t.Errorf("%s: problems %q", d.Name, problems)
		}
		home := t.TempDir()
		text := `plugin "` + table[i].Label + `" { source = "/bin/true" }`
		if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, ds := config.Load(t.Context(), config.Options{Home: home, Dir: home, System: "-"})
		if !ds.HasErrors() || !strings.Contains(ds.Err().Error(), "invalid label") {
			t.Errorf("a plugin may be called %s: %v", table[i].Label, ds)
		}
	}
}
