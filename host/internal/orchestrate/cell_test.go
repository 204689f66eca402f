package orchestrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
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

// scripted is a thread with a host tool "exec", which calls exec, and a plugin's tool "inner", which calls inner.
type scripted struct {
	*bench
	exec  func(ctx context.Context, c *orchestrate.HostCall) error
	inner func(ctl tool.Control) (*contract.Result, error)
	pipe  *orchestrate.Pipeline
	tools *registry.Snapshot

	verdict policy.Verdict  // on inner; zero: it runs
	asked   <-chan struct{} // nil or closed: questions are answered
}

// Ask waits before it answers.
func (s *scripted) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if s.asked != nil {
		<-s.asked
	}
	return s.bench.Ask(ctx, q)
}

func (s *scripted) Call(_ context.Context, start contract.CallStart, ctl tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	s.step("begin %s", start.Tool)
	defer s.step("end %s", start.Tool)
	return s.inner(ctl)
}

// hostCall is a call of exec.
type hostCall struct {
	s *scripted
	c *orchestrate.HostCall
}

func (hostCall) Assess(context.Context, contract.AssessRequest) (*contract.Assessment, error) {
	return &contract.Assessment{}, nil
}

func (h hostCall) Call(ctx context.Context, _ contract.CallStart, _ tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	return contract.Text("over"), h.s.exec(ctx, h.c)
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{bench: &bench{}}
	s.inner = func(tool.Control) (*contract.Result, error) { return contract.Text("in"), nil }
	schema := json.RawMessage(`{"type":"object"}`)
	reg := registry.New()
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{{Name: "inner", InputSchema: schema, ParallelSafe: true}}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	s.tools = reg.Snapshot().With(&registry.Entry{HostTool: "host:exec", Descriptor: contract.Descriptor{
		Name: "exec", ReadOnly: true, Freeform: &contract.Freeform{Property: "code"},
	}})
	s.pipe = orchestrate.New(orchestrate.Deps{
		Hooks: s, Policy: func(r policy.Request) policy.Decision {
			if !r.ReadOnly && s.verdict != policy.Unknown {
				return policy.Decision{Verdict: s.verdict}
			}
			return policy.Decision{Verdict: policy.Run}
		},
		Approver: s, Granter: s, Journal: s, Retry: orchestrate.NoRetry, Processes: s,
		Backends: func(string) (orchestrate.ToolBackend, bool) { return s, true },
		HostTools: func(string) (orchestrate.HostTool, bool) {
			return orchestrate.HostTool{Backend: func(c *orchestrate.HostCall) orchestrate.ToolBackend { return hostCall{s, c} }}, true
		},
	}, orchestrate.NewTokens(), hclog.NewNullLogger())
	return s
}

// dispatch runs exec in a turn of its own.
func (s *scripted) dispatch(ctx context.Context, turn event.TurnID) orchestrate.Answer {
	var gate orchestrate.Gate
	return s.pipe.Dispatch(ctx, &gate, orchestrate.Call{
		Settings: orchestrate.Settings{Thread: "t", Turn: turn, Sandbox: "workspace-write", Tools: s.tools, Output: history.Policy{Limit: 100}},
		Model:    &llm.ToolCall{ID: string(turn), Name: "exec", Input: "x", Freeform: true}, ID: event.CallID(turn),
	}).Wait()
}

// parents returns the parents of the nested calls that began, in order.
func (s *scripted) parents() (out []event.CallID) {
	for _, body := range s.bodies {
		if c, ok := body.(event.CallStarted); ok && c.Tool == "inner" {
			out = append(out, c.Parents...)
		}
	}
	return out
}

var empty = contract.Input{Arguments: json.RawMessage("{}")}

// A call that begins while nobody observes the cell waits for the next observer, and is nested in that one.
func TestCellCallsWaitForAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cell := newScripted(t), orchestrate.NewCell()
		results := make(chan *contract.Result, 2)
		call := func() {
			r, err := cell.CallTool(t.Context(), "", "inner", empty)
			if err != nil {
				t.Error(err)
			}
			results <- r
		}
		s.exec = func(_ context.Context, c *orchestrate.HostCall) error {
			release, err := c.Observe(cell)
			if err != nil {
				return err
			}
			defer release()
			if _, err := c.Observe(cell); !errors.Is(err, orchestrate.ErrObserved) {
				t.Errorf("a second observer: %v", err)
			}
			<-results
			return nil
		}
		for i, turn := range []event.TurnID{"u1", "u2"} {
			go call() // ends when its result was sent
			synctest.Wait()
			if n := len(s.parents()); n != i {
				t.Fatalf("%d calls began, want %d: the next one has no observer", n, i)
			}
			if a := s.dispatch(t.Context(), turn); text(a) != "over" {
				t.Fatalf("answer %q", text(a))
			}
		}
		cell.End(errors.New("over"))
		if got := s.parents(); !slices.Equal(got, []event.CallID{"u1", "u2"}) {
			t.Errorf("parents %q", got)
		}
	})
}

// A call goes on after its observer has ended. The end of the turn gives it time, and then stops it; the cell can be used again.
func TestCellCallsEndWithTheTurn(t *testing.T) {
	const grace = 3 * time.Second
	for _, tc := range []struct {
		name    string
		takes   time.Duration
		aborted bool
		waited  time.Duration
	}{
		{"in time", time.Second, false, time.Second},
		{"too long", time.Hour, true, grace},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, cell := newScripted(t), orchestrate.NewCell()
				s.inner = func(ctl tool.Control) (*contract.Result, error) {
					select {
					case <-time.After(tc.takes):
						return contract.Text("in"), nil
					case <-ctl.Soft.Done():
						return &contract.Result{Aborted: true, IsError: true}, nil
					}
				}
				result := make(chan *contract.Result, 1)
				s.exec = func(_ context.Context, c *orchestrate.HostCall) error {
					release, err := c.Observe(cell)
					if err != nil {
						return err
					}
					defer release()
					go func() { // ends when its result was sent
						r, err := cell.CallTool(t.Context(), "", "inner", empty)
						if err != nil {
							t.Error(err)
						}
						result <- r
					}()
					synctest.Wait()
					return nil
				}
				s.dispatch(t.Context(), "u1")
				if len(result) > 0 {
					t.Fatal("the call ended with its observer")
				}
				begun := time.Now()
				cell.EndTurn(grace)
				if took := time.Since(begun); took != tc.waited {
					t.Errorf("the turn waited %v, want %v", took, tc.waited)
				}
				if r := <-result; r.Aborted != tc.aborted {
					t.Errorf("result %+v", r)
				}
				s.inner = func(tool.Control) (*contract.Result, error) { return contract.Text("again"), nil }
				s.dispatch(t.Context(), "u2")
				if r := <-result; r.Aborted {
					t.Errorf("a call of the next turn: %+v", r)
				}
				cell.End(errors.New("over"))
			})
		})
	}
}

// The end of a cell stops its calls, those that wait for an observer too.
func TestCellEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cell := newScripted(t), orchestrate.NewCell()
		s.inner = func(ctl tool.Control) (*contract.Result, error) {
			<-ctl.Soft.Done()
			return &contract.Result{Aborted: true, IsError: true}, nil
		}
		result := make(chan *contract.Result, 1)
		s.exec = func(_ context.Context, c *orchestrate.HostCall) error {
			release, err := c.Observe(cell)
			if err != nil {
				return err
			}
			defer release()
			go func() { // ends when its result was sent
				r, _ := cell.CallTool(t.Context(), "", "inner", empty)
				result <- r
			}()
			synctest.Wait()
			return nil
		}
		s.dispatch(t.Context(), "u1")
		cause := errors.New("the cell was terminated")
		failed := make(chan error, 1)
		go func() { // ends when its error was sent
			_, err := cell.CallTool(t.Context(), "", "inner", empty)
			failed <- err
		}()
		synctest.Wait()
		cell.End(cause)
		if r := <-result; r == nil || !r.Aborted {
			t.Errorf("result %+v", r)
		}
		if err := <-failed; !errors.Is(err, cause) {
			t.Errorf("a waiting call: %v, want %v", err, cause)
		}
		if _, err := cell.CallTool(t.Context(), "", "inner", empty); !errors.Is(err, cause) {
			t.Errorf("a later call: %v, want %v", err, cause)
		}
	})
}

// A user who aborts at the question of a cell's call ends the turn: with the call that observes the cell, or with the next one.
func TestCellAbort(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, cell := newScripted(t), orchestrate.NewCell()
				s.verdict, s.answer.Choice = policy.Ask, approval.Abort
				asked := make(chan struct{})
				s.asked = asked
				results := make(chan *contract.Result, 1)
				go func() { // ends when its result was sent
					r, err := cell.CallTool(t.Context(), "", "inner", empty)
					if err != nil {
						t.Error(err)
					}
					results <- r
				}()
				s.exec = func(ctx context.Context, c *orchestrate.HostCall) error {
					release, err := c.Observe(cell)
					if err != nil {
						return err
					}
					defer release()
					synctest.Wait() // the call asks
					if late {
						return nil
					}
					close(asked)
					<-ctx.Done()
					return context.Cause(ctx)
				}
				a := s.dispatch(t.Context(), "u1")
				if a.Abort == late {
					t.Fatalf("the first observer aborts: %v", a.Abort)
				}
				if late {
					close(asked)
					<-results
					s.exec = func(_ context.Context, c *orchestrate.HostCall) error {
						release, err := c.Observe(cell)
						if err == nil {
							release()
						}
						return err
					}
					if a := s.dispatch(t.Context(), "u1b"); !a.Abort {
						t.Error("the next observer does not abort")
					}
				}
				cell.End(errors.New("over"))
			})
		})
	}
}
