package features_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// crew is a feature that keeps a list of work and begins a turn for each entry when its thread is idle.
type crew struct{}

func (crew) ID() string { return "crew" }

func (crew) Apply(state json.RawMessage, e event.Event) json.RawMessage {
	var list []string
	if state != nil {
		if err := json.Unmarshal(state, &list); err != nil {
			panic(err)
		}
	}
	switch b := e.Body.(type) {
	case event.FeatureChanged:
		return b.Data
	case event.TurnEnded:
		if len(list) > 0 {
			return marshal(list[1:])
		}
	}
	return state
}

func (crew) NextTurn(state json.RawMessage) ([]llm.Message, error) {
	var list []string
	if err := json.Unmarshal(state, &list); err != nil || len(list) == 0 {
		return nil, err
	}
	return []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<work>" + list[0] + "</work>"}}}}, nil
}

// wait is a host tool that returns when input or mail arrives.
var wait = hosttool.Tool{
	Label:      hosttool.LabelPrefix + "wait",
	Descriptor: contract.Descriptor{Name: "wait", InputSchema: json.RawMessage(`{"type":"object"}`), ReadOnly: true, ParallelSafe: true},
	Offer:      func(hosttool.Conditions) hosttool.Offer { return hosttool.Offered },
	HostTool: orchestrate.HostTool{Backend: hosttool.Func(func(ctx context.Context, c *orchestrate.HostCall, _ contract.Input) (*contract.Result, error) {
		a, err := c.Signal.Wait(ctx)
		if err != nil {
			return nil, err
		}
		text := map[orchestrate.Arrival]string{orchestrate.InputArrival: "input has arrived", orchestrate.MailArrival: "mail has arrived"}[a]
		return &contract.Result{Parts: []contract.Part{&contract.TextPart{Text: text}}}, nil
	}).Backend},
}

// office is the engine of a thread whose model calls the tool in answer to the user and says a word otherwise.
type office struct{ world }

func (o *office) Turn(_ context.Context, t *thread.Thread, id event.TurnID, _ thread.Submission) (thread.Plan, error) {
	tools := hosttool.New(wait)
	calls := orchestrate.New(orchestrate.Deps{
		Hooks: hook.None{}, Policy: policy.Decide, Approver: t.Approvals(), Granter: open{}, Journal: t, Retry: orchestrate.NoRetry, Processes: open{},
		HostTools: tools.Tool,
	}, orchestrate.NewTokens(), hclog.NewNullLogger())
	return thread.Plan{Started: event.TurnStarted{Cwd: "/"}, Config: turn.Config{
		Model: o, Calls: calls, Tools: func() *registry.Snapshot { return tools.Extend(registry.New().Snapshot(), hosttool.Conditions{}) },
		Settings: orchestrate.Settings{Thread: t.ID(), Turn: id, Approval: policy.Never, Output: history.Policy{Limit: 100}},
	}}, nil
}

func (o *office) Stream(_ context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, *r)
	evs := []llm.Event{llm.StepStart{}}
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.RoleUser && strings.HasPrefix(last.Text(), "go") {
		evs = append(evs, llm.ToolCallDone{Call: llm.ToolCall{ID: "call" + last.Text(), Name: "wait", Input: "{}"}})
	} else {
		evs = append(evs, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "ok"}, llm.BlockEnd{Kind: llm.BlockText, ID: "1"})
	}
	evs = append(evs, llm.StepFinish{}, llm.Finish{})
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// open lets calls do what they declare.
type open struct{}

func (open) Grant(context.Context, orchestrate.GrantRequest) (launch.Grant, error) {
	return launch.Grant{}, nil
}
func (open) Writable(orchestrate.GrantRequest, string) bool { return true }
func (open) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) {
	return p, nil
}
func (open) EndCall(context.Context, launch.Owner) error { return nil }

// A tool that waits for input or mail, and a feature that begins turns when the thread is idle, need nothing but their own package.
func TestWaitAndContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{}
		th := thread.New(thread.Config{
			ID: "thread", Start: &event.ThreadStarted{Cwd: "/"}, Sink: o, Engine: o, Features: []thread.Feature{crew{}}, Logger: hclog.NewNullLogger(),
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		var work sync.WaitGroup
		work.Go(func() { _ = th.Run(ctx) }) // owned by the test: work waits
		defer func() { cancel(orchestrate.ErrShutdown); work.Wait() }()
		do := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			synctest.Wait()
		}
		// The words of the last request behind the user's.
		after := func(word string) (out []string) {
			for _, m := range o.asked[len(o.asked)-1].Messages {
				text := m.Text()
				for _, p := range m.Parts {
					if r, ok := p.(*llm.ToolResult); ok {
						text = llm.Message{Parts: r.Content}.Text()
					}
				}
				out = append(out, text)
			}
			return out[slices.Index(out, word)+1:]
		}
		set := func(list ...string) {
			t.Helper()
			_, err := th.Publish(t.Context(), "", event.FeatureChanged{Feature: "crew", Data: marshal(list)})
			do("change the state", err)
		}

		_, err := th.Submit(t.Context(), said("go 1"))
		do("submit", err)
		if n := len(o.asked); n != 1 {
			t.Fatalf("%d requests while the call waits, want 1", n)
		}
		_, err = th.Post(t.Context(), event.Mail{Author: "/root/a", Recipient: "/root", Type: event.MailMessage, Text: "news"})
		do("post", err)
		if got := after("go 1"); len(got) != 3 || got[1] != "mail has arrived" || !strings.Contains(got[2], "news") {
			t.Errorf("after mail: %q", got)
		}
		_, err = th.Submit(t.Context(), said("go 2"))
		do("submit", err)
		_, err = th.Submit(t.Context(), said("never mind"))
		do("steer", err)
		if got := after("go 2"); !slices.Equal(got, []string{"", "input has arrived", "never mind"}) {
			t.Errorf("after input: %q", got)
		}

		// Work that is there when a turn ends continues at once; work that comes later, when the thread is woken.
		n := len(o.asked)
		set("first", "second", "third")
		if len(o.asked) != n {
			t.Error("a changed state alone began a turn")
		}
		_, err = th.Submit(t.Context(), said("hello"))
		do("submit", err)
		if got := after("hello"); !slices.Equal(got, []string{"ok", "<work>second</work>", "ok", "<work>third</work>"}) {
			t.Errorf("after a turn: %q", got)
		}
		set("late")
		th.Wake()
		synctest.Wait()
		if got := after("<work>third</work>"); !slices.Equal(got, []string{"ok", "<work>late</work>"}) {
			t.Errorf("after a wake-up: %q", got)
		}
	})
}
