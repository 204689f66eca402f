package orchestrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

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

// byHost is a backend whose call makes a request to the host immediately, and records the result.
type byHost struct {
	*bench
	tokens *orchestrate.Tokens
	joined chan error // what Join said
	ended  error      // the cause of the call's end
	stays  bool       // the call goes on until it is ended
}

func (f *byHost) Call(ctx context.Context, s contract.CallStart, _ tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	f.step("call")
	live, ok := f.tokens.Lookup("p", s.CallToken)
	if !ok {
		return nil, errors.New("the token is not valid")
	}
	_, done, err := live.Join(ctx)
	if f.joined <- err; err == nil {
		f.step("effect")
		done()
	}
	if f.stays {
		<-ctx.Done()
		f.ended = context.Cause(ctx)
		return nil, f.ended
	}
	return contract.Text("ok"), nil
}

// dispatch starts a call of a tool that acts only through the host.
func (f *byHost) dispatch(ctx context.Context, t *testing.T) *orchestrate.Future {
	t.Helper()
	d := assessed
	d.EffectsByHost = true
	reg := registry.New()
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	f.tokens, f.joined = orchestrate.NewTokens(), make(chan error, 1)
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: f, Policy: func(policy.Request) policy.Decision { return policy.Decision{Verdict: policy.Run} }, Approver: f, Granter: f,
		Journal: f, Retry: orchestrate.NoRetry, Processes: f,
		Backends: func(string) (orchestrate.ToolBackend, bool) { return f, true },
	}, f.tokens, hclog.NewNullLogger())
	return pipeline.Dispatch(ctx, &orchestrate.Gate{}, orchestrate.Call{
		Settings: orchestrate.Settings{Tools: reg.Snapshot(), Output: history.Policy{Limit: 100}},
		Model:    &llm.ToolCall{ID: "c", Name: "act", Input: "{}"}, ID: "c",
	})
}

func TestRequestsWaitForTheCommitOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &byHost{bench: &bench{held: make(chan struct{})}}
		future := f.dispatch(t.Context(), t)
		synctest.Wait()
		if steps := strings.Join(f.steps, "\n"); !strings.Contains(steps, "\ncall\n") && !strings.HasSuffix(steps, "\ncall") {
			t.Errorf("the plugin was not asked yet:\n%s", steps)
		}
		if len(f.joined) != 0 {
			t.Fatal("the host did something for a call whose start is not stored")
		}
		close(f.held)
		if a := future.Wait(); a.Outcome != event.OutcomeOK {
			t.Errorf("answer = %+v %q", a, text(a))
		}
		if err := <-f.joined; err != nil {
			t.Errorf("the effect was refused: %v", err)
		}
	})
}

func TestRequestsFailIfTheStartIsNotCommitted(t *testing.T) {
	for _, stays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &byHost{bench: &bench{held: make(chan struct{}), barrier: errors.New("disk full")}, stays: stays}
			future := f.dispatch(t.Context(), t)
			synctest.Wait()
			close(f.held)
			a := future.Wait()
			if a.Outcome != event.OutcomeError || !strings.Contains(text(a), "was not started: disk full") {
				t.Errorf("%s: %q", a.Outcome, text(a))
			}
			if err := <-f.joined; err == nil {
				t.Error("the host did something for it")
			}
			if stays && f.ended == nil {
				t.Error("it was not ended")
			}
		})
	}
}

func TestInterruptBeforeTheCommitOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &byHost{bench: &bench{held: make(chan struct{})}}
		ctx, interrupt := context.WithCancelCause(t.Context())
		future := f.dispatch(ctx, t)
		synctest.Wait()
		interrupt(orchestrate.ErrInterrupted)
		if a := future.Wait(); a.Outcome != event.OutcomeAborted {
			t.Errorf("%s: %q", a.Outcome, text(a))
		}
		if err := <-f.joined; err == nil {
			t.Error("the host did something for it")
		}
	})
}
