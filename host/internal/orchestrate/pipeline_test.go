package orchestrate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench implements the dependencies of a pipeline and records their calls.
type bench struct {
	remembered bool     // every key is
	keys       []string // that were looked for
	mu         sync.Mutex
	steps      []string
	bodies     []event.Body
	barrier    error
	held       chan struct{} // when set, barriers wait until it is closed

	hooks      hook.Verdict
	permission hook.Permission
	requested  []hook.Request // of hooks
	review     hook.Review

	assess   func(contract.AssessRequest) (*contract.Assessment, error)
	policy   policy.Decision
	approval policy.Approval // default: never
	answer   approval.Answer
	askErr   error
	grant    error
	call     func(contract.CallStart) (*contract.Result, error)
	retry    orchestrate.Retry
	files    orchestrate.Files
	book     orchestrate.Rulebook

	foreign bool // its plugin does not come with gantry

	asked   approval.Question
	granted *contract.Escalation
}

func (b *bench) step(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps = append(b.steps, fmt.Sprintf(format, args...))
}

func (b *bench) PreToolUse(_ context.Context, c hook.Call) (hook.Verdict, error) {
	b.step("pre-hook %s %s", c.Tool, c.Input)
	return b.hooks, nil
}

func (b *bench) PermissionRequest(_ context.Context, r hook.Request) (hook.Permission, error) {
	b.mu.Lock()
	b.requested = append(b.requested, r)
	b.mu.Unlock()
	return b.permission, nil
}

func (b *bench) PostToolUse(context.Context, hook.Call, *contract.Result) (hook.Review, error) {
	b.step("post-hook")
	return b.review, nil
}

func (b *bench) Assess(_ context.Context, r contract.AssessRequest) (*contract.Assessment, error) {
	b.step("assess")
	if b.assess != nil {
		return b.assess(r)
	}
	return &contract.Assessment{Effects: []contract.Effect{contract.OtherEffect{Label: "x"}}, Digest: "d"}, nil
}

func (b *bench) Call(_ context.Context, s contract.CallStart, _ tool.Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	b.step("call %d %s", s.Attempt, s.AssessDigest)
	sink(contract.Output{Data: []byte("out")})
	if b.call != nil {
		return b.call(s)
	}
	return contract.Text("ok"), nil
}

func (b *bench) Publish(_ context.Context, _ event.TurnID, bodies ...event.Body) (uint64, error) {
	for _, body := range bodies {
		b.step("%s", body.Kind())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies = append(b.bodies, bodies...)
	return uint64(len(b.bodies)), nil
}

func (b *bench) Barrier(ctx context.Context, _ uint64) error {
	b.step("barrier")
	if b.held != nil {
		select {
		case <-b.held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b.barrier
}

func (b *bench) Ask(_ context.Context, q approval.Question) (approval.Answer, error) {
	b.step("ask %.40s", q.Title)
	b.mu.Lock()
	b.asked = q
	b.mu.Unlock()
	return b.answer, b.askErr
}
func (b *bench) Allowed(_ event.TurnID, keys []string) bool {
	b.keys = append(b.keys, keys...)
	return b.remembered
}

func (b *bench) Allow([]string)                   { b.step("allow") }
func (b *bench) AllowTurn(event.TurnID, []string) { b.step("allow for the turn") }

func (b *bench) Grant(_ context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	b.step("grant %d", r.Attempt)
	b.mu.Lock()
	b.granted = r.Escalation
	b.mu.Unlock()
	return launch.Grant{Mode: r.Sandbox}, b.grant
}

func (b *bench) Writable(_ orchestrate.GrantRequest, path string) bool {
	return !strings.HasPrefix(path, "/outside")
}

func (b *bench) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) {
	if slices.Contains(p.Write, "/refused") {
		return p, errors.New("/refused can't be written")
	}
	return p, nil
}

func (b *bench) EndCall(context.Context, launch.Owner) error {
	b.step("end-processes")
	return nil
}

var assessed = contract.Descriptor{
	Name: "act", Assess: true, InputSchema: json.RawMessage(`{"type":"object","properties":{"cmd":{"type":"string"}}}`),
	HookName: "Bash", HookFields: map[string]string{"command": "cmd"},
}

func (b *bench) run(t *testing.T, d contract.Descriptor, input string) orchestrate.Answer {
	t.Helper()
	return b.dispatch(t, d, &llm.ToolCall{ID: "c1", Name: d.Name, Input: input})
}

func (b *bench) dispatch(t *testing.T, d contract.Descriptor, call *llm.ToolCall) orchestrate.Answer {
	t.Helper()
	reg := registry.New()
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	if b.retry == nil {
		b.retry = orchestrate.NoRetry
	}
	if b.policy.Verdict == policy.Unknown {
		b.policy.Verdict = policy.Run
	}
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: b, Policy: func(policy.Request) policy.Decision { b.step("policy"); return b.policy }, Approver: b, Rulebook: b.book, Granter: b,
		Journal: b, Retry: b.retry, Backends: func(string) (orchestrate.ToolBackend, bool) { return b, true }, Processes: b, Files: b.files,
		BuiltIn: func(string) bool { return !b.foreign },
	}, orchestrate.NewTokens(), hclog.NewNullLogger())
	var gate orchestrate.Gate
	return pipeline.Dispatch(t.Context(), &gate, orchestrate.Call{
		Settings: orchestrate.Settings{
			Thread: "t", Turn: "u", Cwd: "/", Approval: cmp.Or(b.approval, policy.Never), Sandbox: "full-access", Tools: reg.Snapshot(),
			Output: history.Policy{Limit: 100},
		},
		Model: call, ID: "c1",
	}).Wait()
}

func text(a orchestrate.Answer) string { return llm.Message{Parts: a.Result.Content}.Text() }

func TestStagesInTheirOrder(t *testing.T) {
	b := &bench{}
	a := b.run(t, assessed, `{"cmd":"ls"}`)
	want := []string{
		`pre-hook Bash {"command":"ls"}`, "assess", "end-processes", "item.started", "policy", "grant 1", "call.decided", "call.started", "barrier",
		"call 1 d", "item.delta", "end-processes", "post-hook", "item.completed", "call.ended",
	}
	if !slices.Equal(b.steps, want) {
		t.Errorf("steps:\n%s\nwant:\n%s", strings.Join(b.steps, "\n"), strings.Join(want, "\n"))
	}
	if a.Outcome != event.OutcomeOK || text(a) != "ok" || a.Result.ID != "c1" {
		t.Errorf("answer = %+v %q", a, text(a))
	}
}

// The error for an unknown tool has its full name, in the form of the call.
func TestUnknownTools(t *testing.T) {
	for want, call := range map[string]llm.ToolCall{
		"unsupported call: nope":                 {Name: "nope", Input: `{}`},
		"unsupported custom tool call: nope":     {Name: "nope", Input: "text", Freeform: true},
		"unsupported call: mcp__srv.tool":        {Namespace: "mcp__srv", Name: "tool", Input: `{}`},
		"unsupported call: act2":                 {Namespace: "functions", Name: "act2", Input: `{}`},
		"act takes JSON arguments, not raw text": {Name: "act", Input: "text", Freeform: true},
		"failed to parse function arguments: ":   {Name: "act", Input: "{bad"},
	} {
		call.ID = "c1"
		b := &bench{}
		if a := b.dispatch(t, assessed, &call); !strings.HasPrefix(text(a), want) || a.Outcome != event.OutcomeError || a.Result.Freeform != call.Freeform {
			t.Errorf("%+v: outcome %v, %q, freeform %v; want %q", call, a.Outcome, text(a), a.Result.Freeform, want)
		}
	}
}

// Whichever stage ends a call, its item is published and completed, it has a result, and no later stage is reached.
func TestEachStageCanEndTheCall(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*bench)
		input   string
		never   string // a step that must not be reached
		outcome event.Outcome
		says    string
	}{
		{"arguments", func(*bench) {}, `{bad`, "pre-hook", event.OutcomeError, "failed to parse function arguments: "},
		{"hook", func(b *bench) { b.hooks = hook.Verdict{Deny: true, Message: "not today"} }, `{}`, "assess", event.OutcomeDenied, "not today"},
		{"hook that rewrites badly", func(b *bench) { b.hooks = hook.Verdict{Input: json.RawMessage(`{"cmd":5}`)} }, `{}`, "assess", event.OutcomeError, "rewrote the arguments"},
		{"early result", func(b *bench) {
			b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
				return &contract.Assessment{Early: contract.ErrorText("does not apply")}, nil
			}
		}, `{}`, "policy", event.OutcomeError, "does not apply"},
		{"assessment fails", func(b *bench) {
			b.assess = func(contract.AssessRequest) (*contract.Assessment, error) { return nil, errors.New("boom") }
		}, `{}`, "policy", event.OutcomeError, "the call failed: boom"},
		{"policy", func(b *bench) { b.policy = policy.Decision{Verdict: policy.Forbid, Reason: "forbidden here"} }, `{}`, "grant", event.OutcomeDenied, "forbidden here"},
		{"nobody to ask", func(b *bench) { b.policy.Verdict, b.askErr = policy.Ask, approval.ErrNoApprover }, `{}`, "grant", event.OutcomeDenied, "there is nobody to ask"},
		{"person", func(b *bench) { b.policy.Verdict, b.answer.Choice = policy.Ask, approval.Deny }, `{}`, "grant", event.OutcomeDenied, "rejected by user"},
		{"answer that is no clear yes", func(b *bench) { b.policy.Verdict, b.answer.Choice = policy.Ask, "maybe" }, `{}`, "grant", event.OutcomeDenied, "rejected by user"},
		{"permission hook", func(b *bench) {
			b.policy.Verdict, b.permission = policy.Ask, hook.Permission{Deny: true, Message: "M"}
		}, `{}`, "ask act", event.OutcomeDenied, "rejected: M"},
		{"grant", func(b *bench) { b.grant = errors.New("the sandbox mode read-only is not there yet") }, `{}`, "call.started", event.OutcomeDenied, "read-only"},
		{"log that is not durable", func(b *bench) { b.barrier = errors.New("disk full") }, `{}`, "call 1 d", event.OutcomeError, "disk full"},
		{"plugin", func(b *bench) {
			b.call = func(contract.CallStart) (*contract.Result, error) { return nil, errors.New("gone") }
		}, `{}`, "post-hook", event.OutcomeError, "the call failed: gone"},
		{"plugin's own error", func(b *bench) {
			b.call = func(contract.CallStart) (*contract.Result, error) { return contract.ErrorText("no such file"), nil }
		}, `{}`, "post-hook", event.OutcomeError, "no such file"},
		{"panic", func(b *bench) {
			b.call = func(contract.CallStart) (*contract.Result, error) { panic("broken invariant") }
		}, `{}`, "post-hook", event.OutcomeError, "internal error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &bench{}
			tc.change(b)
			a := b.run(t, assessed, tc.input)
			if a.Outcome != tc.outcome || !strings.Contains(text(a), tc.says) {
				t.Errorf("%s: %q, want %s with %q", a.Outcome, text(a), tc.outcome, tc.says)
			}
			if !a.Result.IsError {
				t.Error("the model is not told that it failed")
			}
			if slices.Contains(b.steps, tc.never) {
				t.Errorf("reached %q:\n%s", tc.never, strings.Join(b.steps, "\n"))
			}
			if !slices.Contains(b.steps, "item.started") || !slices.Contains(b.steps, "item.completed") {
				t.Errorf("the item did not begin and end:\n%s", strings.Join(b.steps, "\n"))
			}
			if slices.Contains(b.steps, "call.started") != slices.Contains(b.steps, "call.ended") {
				t.Errorf("the journal's entry is not closed:\n%s", strings.Join(b.steps, "\n"))
			}
		})
	}
}

func TestApprovedForTheSession(t *testing.T) {
	b := &bench{answer: approval.Answer{Choice: approval.ApproveSession}}
	b.policy.Verdict = policy.Ask
	if a := b.run(t, assessed, `{"cmd":"ls"}`); a.Outcome != event.OutcomeOK {
		t.Errorf("answer = %+v", a)
	}
	if !slices.Contains(b.steps, "allow") {
		t.Error("the answer was not remembered")
	}
}

func TestAbortEndsTheTurn(t *testing.T) {
	b := &bench{answer: approval.Answer{Choice: approval.Abort}}
	b.policy.Verdict = policy.Ask
	if a := b.run(t, assessed, `{}`); !a.Abort || a.Outcome != event.OutcomeDenied {
		t.Errorf("answer = %+v", a)
	}
}

// A call with an effect that changes something is not read-only, even if the plugin says so.
func TestReadOnlyCallsChangeNothing(t *testing.T) {
	for effect, reads := range map[contract.Effect]bool{
		contract.OtherEffect{Label: "look"}: true, contract.SessionInputEffect{SessionID: "1"}: true, contract.SessionInputEffect{SessionID: "1", Text: "x"}: false,
	} {
		for _, effects := range [][]contract.Effect{{effect}, {contract.ReadEffect{Paths: []string{"/a"}}, effect, contract.WriteEffect{Paths: []string{"/a"}}}} {
			reads := reads && len(effects) == 1
			b := &bench{policy: policy.Decision{Verdict: policy.Run}, assess: func(contract.AssessRequest) (*contract.Assessment, error) {
				return &contract.Assessment{ReadOnly: true, Effects: effects}, nil
			}}
			b.run(t, assessed, `{}`)
			var started event.CallStarted
			for _, body := range b.bodies {
				if s, ok := body.(event.CallStarted); ok {
					started = s
				}
			}
			if started.ReadOnly != reads || reads == slices.Contains(b.steps, "barrier") {
				t.Errorf("%+v: read-only %v, want %v\n%s", effects, started.ReadOnly, reads, strings.Join(b.steps, "\n"))
			}
		}
	}
}

func TestReadOnlyCallsDoNotWaitForTheDisk(t *testing.T) {
	b := &bench{assess: func(contract.AssessRequest) (*contract.Assessment, error) {
		return &contract.Assessment{ReadOnly: true}, nil
	}}
	b.run(t, assessed, `{}`)
	if slices.Contains(b.steps, "barrier") || !slices.Contains(b.steps, "call.started") {
		t.Errorf("steps:\n%s", strings.Join(b.steps, "\n"))
	}
}

// Each attempt has its own grant, token and entry in the journal.
func TestRetryWithAWiderGrant(t *testing.T) {
	b := &bench{
		answer: approval.Answer{Choice: approval.Approve},
		retry: func(policy.Request, *contract.Result) (*contract.Escalation, bool) {
			return &contract.Escalation{Unsandboxed: true}, true
		},
	}
	b.call = func(s contract.CallStart) (*contract.Result, error) {
		if s.Attempt == 1 {
			return &contract.Result{SandboxDenied: true, IsError: true, Parts: []contract.Part{&contract.TextPart{Text: "denied"}}}, nil
		}
		return contract.Text("now it works"), nil
	}
	a := b.run(t, assessed, `{}`)
	if text(a) != "now it works" {
		t.Errorf("answer = %q", text(a))
	}
	for _, want := range []string{"grant 1", "call 1 d", "grant 2", "call 2 d"} {
		if !slices.Contains(b.steps, want) {
			t.Errorf("no %q:\n%s", want, strings.Join(b.steps, "\n"))
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(b.steps), func(s string) bool { return s != "call.started" })); n != 2 {
		t.Errorf("%d entries in the journal, want 2", n)
	}
}

// An approval of a tool does not cover the commands of its calls: they are asked about before they run again outside of the sandbox.
func TestApprovalOfAToolDoesNotCoverRetries(t *testing.T) {
	for _, tc := range []struct {
		tool, remembered, want bool
	}{{tool: true}, {tool: true, remembered: true}, {want: true}, {remembered: true, want: true}} {
		var approved bool
		b := &bench{
			policy: policy.Decision{Verdict: policy.Ask, Tool: tc.tool}, answer: approval.Answer{Choice: approval.ApproveSession},
			retry: func(r policy.Request, _ *contract.Result) (*contract.Escalation, bool) {
				approved = r.Approved
				return nil, false
			},
			call: func(contract.CallStart) (*contract.Result, error) {
				return &contract.Result{SandboxDenied: true, IsError: true, Parts: []contract.Part{&contract.TextPart{Text: "denied"}}}, nil
			},
		}
		b.remembered = tc.remembered
		b.run(t, assessed, `{}`)
		if approved != tc.want {
			t.Errorf("for the tool: %v, remembered: %v: the second attempt counts as approved: %v", tc.tool, tc.remembered, approved)
		}
	}
}

func TestHookReplacesWhatTheModelReads(t *testing.T) {
	replaced := "redacted"
	b := &bench{review: hook.Review{Replace: &replaced, Context: []string{"note"}}}
	a := b.run(t, assessed, `{}`)
	if text(a) != replaced || !slices.Equal(a.Context, []string{"note"}) {
		t.Errorf("answer = %q, context %q", text(a), a.Context)
	}
}

func TestTokensAreRevokedWithTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := orchestrate.NewTokens()
		b := &bench{retry: orchestrate.NoRetry, policy: policy.Decision{Verdict: policy.Run}}
		var during, foreign bool
		var token string
		b.call = func(s contract.CallStart) (*contract.Result, error) {
			token = s.CallToken
			_, during = tokens.Lookup("p", token)
			_, foreign = tokens.Lookup("other", token)
			return contract.Text("ok"), nil
		}
		reg := registry.New()
		reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{assessed}})
		pipeline := orchestrate.New(orchestrate.Deps{
			Hooks: b, Policy: func(policy.Request) policy.Decision { return b.policy }, Approver: b, Rulebook: b.book, Granter: b, Journal: b,
			Retry: b.retry, Backends: func(string) (orchestrate.ToolBackend, bool) { return b, true }, Processes: b,
		}, tokens, hclog.NewNullLogger())
		var gate orchestrate.Gate
		pipeline.Dispatch(t.Context(), &gate, orchestrate.Call{
			Settings: orchestrate.Settings{Tools: reg.Snapshot()}, Model: &llm.ToolCall{ID: "c", Name: "act", Input: "{}"}, ID: "c",
		}).Wait()
		if _, after := tokens.Lookup("p", token); !during || foreign || after {
			t.Errorf("valid during the call %v, for another plugin %v, after it %v", during, foreign, after)
		}
	})
}
