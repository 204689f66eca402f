package orchestrate_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// requester is a pipeline whose calls request permissions, which a real broker remembers.
type requester struct {
	*bench
	broker   *approval.Broker
	saw      []policy.Request
	wide     []policy.Permissions // of grants
	pipeline *orchestrate.Pipeline
	tools    *registry.Snapshot
}

func newRequester(t *testing.T, b *bench, decide func(policy.Request) policy.Decision) *requester {
	w := &requester{bench: b, broker: approval.NewBroker(nil)}
	reg := registry.New()
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{assessed}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	w.tools = hosttool.Default().Extend(reg.Snapshot(), hosttool.Conditions{AdditionalPermissions: true, Approval: policy.OnRequest})
	w.pipeline = orchestrate.New(orchestrate.Deps{
		Hooks: b, Approver: b, Permits: w.broker, Granter: requesterGrants{w}, Journal: b, Retry: orchestrate.NoRetry, Processes: b,
		Policy: func(r policy.Request) policy.Decision {
			w.saw = append(w.saw, r)
			return decide(r)
		},
		Backends: func(string) (orchestrate.ToolBackend, bool) { return b, true }, HostTools: hosttool.Default().Tool,
	}, orchestrate.NewTokens(), hclog.NewNullLogger())
	return w
}

type requesterGrants struct{ *requester }

func (w requesterGrants) Grant(ctx context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	w.wide = append(w.wide, r.Permitted)
	return w.bench.Grant(ctx, r)
}

func (w *requester) do(t *testing.T, turn event.TurnID, name, args string) orchestrate.Answer {
	t.Helper()
	var gate orchestrate.Gate
	return w.pipeline.Dispatch(t.Context(), &gate, orchestrate.Call{
		Settings: orchestrate.Settings{
			Thread: "t", Turn: turn, Cwd: "/", Approval: policy.OnRequest, Sandbox: "workspace-write", Tools: w.tools, Output: history.Policy{Limit: 1000},
		},
		Model: &llm.ToolCall{ID: "c1", Name: name, Input: args}, ID: "c1",
	}).Wait()
}

const permissionRequest = `{"reason":"to install it","permissions":{"network":{"enabled":true},"file_system":{"read":null,"write":["/w"]}}}`

func TestAskingForPermissions(t *testing.T) {
	const (
		all  = `{"permissions":{"network":{"enabled":true},"file_system":{"read":[],"write":["/w"]}},"scope":"turn"}`
		none = `{"permissions":{"network":null,"file_system":null},"scope":"turn"}`
	)
	ask := policy.Decision{Verdict: policy.Ask, Reason: "R"}
	for _, tc := range []struct {
		name    string
		args    string
		policy  policy.Decision
		hook    hook.Permission
		answer  approval.Answer
		askErr  error
		outcome event.Outcome
		says    string
		abort   bool
		told    string // to the model beside the answer
		later   bool   // it holds in the next turn
	}{
		{"granted for the turn", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: approval.ApproveTurn}, nil, event.OutcomeOK, all, false, "", false},
		{"granted by a reviewer", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: approval.Approve}, nil, event.OutcomeOK, all, false, "", false},
		{"granted for the session", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: approval.ApproveSession}, nil, event.OutcomeOK,
			strings.Replace(all, `"turn"`, `"session"`, 1), false, "", true},
		{"granted in part", permissionRequest, ask, hook.Permission{}, approval.Answer{
			Choice: approval.ApproveTurn, Data: json.RawMessage(`{"permissions":{"file_system":{"write":["/w/sub","/etc"]}}}`),
		}, nil, event.OutcomeOK, `{"permissions":{"network":null,"file_system":{"read":[],"write":["/w/sub"]}},"scope":"turn"}`, false, "", false},
		{"an answer that makes no sense", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: approval.ApproveTurn, Data: json.RawMessage(`"all"`)}, nil, event.OutcomeOK, none, false, "", false},
		{"denied", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: approval.Deny}, nil, event.OutcomeOK, none, false, "", false},
		{"no clear yes", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: "perhaps"}, nil, event.OutcomeOK, none, false, "", false},
		{"aborted", permissionRequest, ask, hook.Permission{}, approval.Answer{Choice: approval.Abort}, nil, event.OutcomeDenied, "rejected by user", true, "", false},
		{"nobody is there", permissionRequest, ask, hook.Permission{}, approval.Answer{}, approval.ErrNoApprover, event.OutcomeOK, none, false, "nobody to ask", false},
		{"refused by the policy", permissionRequest, policy.Decision{Verdict: policy.Forbid, Reason: "R"}, hook.Permission{}, approval.Answer{}, nil, event.OutcomeOK, none, false, "No permissions were granted: R", false},
		{"nothing to give", permissionRequest, policy.Decision{Verdict: policy.Run}, hook.Permission{}, approval.Answer{}, nil, event.OutcomeOK, all, false, "", false},
		{"granted by a hook", permissionRequest, ask, hook.Permission{Allow: true}, approval.Answer{Choice: approval.Deny}, nil, event.OutcomeOK, all, false, "", false},
		{"denied by a hook", permissionRequest, ask, hook.Permission{Deny: true, Message: "M"}, approval.Answer{Choice: approval.Approve}, nil, event.OutcomeOK, none, false, "M", false},
		{"nothing asked for", `{"permissions":{}}`, ask, hook.Permission{}, approval.Answer{}, nil, event.OutcomeError, "request_permissions requires at least one permission", false, "", false},
		{"only no", `{"permissions":{"network":{"enabled":false},"file_system":{"write":[]}}}`, ask, hook.Permission{}, approval.Answer{}, nil, event.OutcomeError, "requires at least one", false, "", false},
		{"what can't be given", `{"permissions":{"file_system":{"write":["/refused"]}}}`, ask, hook.Permission{}, approval.Answer{}, nil, event.OutcomeError, "/refused can't be written", false, "", false},
		{"arguments", `{"permissions":{"network":true}}`, ask, hook.Permission{}, approval.Answer{}, nil, event.OutcomeError, "failed to parse function arguments: ", false, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &bench{answer: tc.answer, askErr: tc.askErr, permission: tc.hook}
			w := newRequester(t, b, func(r policy.Request) policy.Decision {
				if r.PermissionRequest {
					return tc.policy
				}
				return policy.Decision{Verdict: policy.Run}
			})
			a := w.do(t, "u1", "request_permissions", tc.args)
			if a.Outcome != tc.outcome || !strings.Contains(text(a), tc.says) || a.Abort != tc.abort || !strings.Contains(strings.Join(a.Context, "\n"), tc.told) {
				t.Errorf("%s %q, abort %v, told %q", a.Outcome, text(a), a.Abort, a.Context)
			}
			b.answer.Choice = ""
			w.do(t, "u1", "act", `{}`)
			w.do(t, "u2", "act", `{}`)
			now, later := w.wide[len(w.wide)-2], w.wide[len(w.wide)-1]
			if given := !now.Empty(); given != (tc.outcome == event.OutcomeOK && !strings.Contains(text(a), none) && tc.policy.Verdict == policy.Ask) {
				t.Errorf("a call of the turn has %+v", now)
			}
			if !later.Empty() != tc.later {
				t.Errorf("a call of the next turn has %+v", later)
			}
		})
	}
}

// Permissions may be granted on the condition that each call of the turn is approved; earlier approvals don't apply then.
func TestReviewedTurns(t *testing.T) {
	b := &bench{answer: approval.Answer{Choice: approval.ApproveTurn, Data: json.RawMessage(`{"strict_auto_review":true}`)}}
	b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
		return &contract.Assessment{Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"make"}}}, Digest: "d"}, nil
	}
	w := newRequester(t, b, func(r policy.Request) policy.Decision {
		r.Additional = true
		return policy.Decide(r)
	})
	if w.do(t, "u1", "act", `{}`); b.asked.About != "" {
		t.Errorf("before: asked %+v", b.asked)
	}
	if a := w.do(t, "u1", "request_permissions", permissionRequest); !strings.Contains(text(a), `"/w"`) {
		t.Errorf("%s %q", a.Outcome, text(a))
	}
	b.remembered, b.hooks = true, hook.Verdict{Allow: true} // of programs, too
	for _, tc := range []struct {
		choice  string
		outcome event.Outcome
	}{{approval.ApproveSession, event.OutcomeOK}, {approval.Deny, event.OutcomeDenied}, {approval.Approve, event.OutcomeOK}} {
		b.asked, b.answer = approval.Question{}, approval.Answer{Choice: tc.choice}
		if a := w.do(t, "u1", "act", `{}`); a.Outcome != tc.outcome || b.asked.About != event.QuestionApproval || b.asked.Rule != nil {
			t.Errorf("%s: %s %q, asked %+v", tc.choice, a.Outcome, text(a), b.asked)
		}
	}
	b.asked, b.askErr = approval.Question{}, approval.ErrNoApprover
	if a := w.do(t, "u1", "act", `{}`); a.Outcome != event.OutcomeDenied {
		t.Errorf("with nobody there: %s %q", a.Outcome, text(a))
	}
	b.asked = approval.Question{}
	if a := w.do(t, "u2", "act", `{}`); a.Outcome != event.OutcomeOK || b.asked.About != "" {
		t.Errorf("in the next turn: %s, asked %+v", a.Outcome, b.asked)
	}
	b.askErr, b.answer = nil, approval.Answer{Choice: approval.Deny, Data: json.RawMessage(`{"strict_auto_review":true}`)}
	w.do(t, "u3", "request_permissions", permissionRequest)
	if a := w.do(t, "u3", "act", `{}`); a.Outcome != event.OutcomeOK {
		t.Errorf("behind a no: %s", a.Outcome)
	}
}

// The question shows what is requested. Granted permissions are not asked about again, even if a command requests them.
func TestPermissionsAreAskedForOnce(t *testing.T) {
	b := &bench{answer: approval.Answer{Choice: approval.ApproveTurn}}
	wanted := policy.Permissions{Write: []string{"/w/deep"}}
	b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
		return &contract.Assessment{
			Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"make"}}}, Digest: "d",
			Escalation: &contract.Escalation{Justification: "J", Additional: wanted.Effects()},
		}, nil
	}
	w := newRequester(t, b, func(r policy.Request) policy.Decision {
		r.Additional = true
		return policy.Decide(r)
	})
	w.do(t, "u1", "act", `{}`)
	if q := b.asked; q.About != event.QuestionApproval || q.Message != "J" || len(q.Wanted) != 1 {
		t.Errorf("the question about the command is %+v", q)
	}
	b.asked, b.bodies = approval.Question{}, nil
	w.do(t, "u1", "request_permissions", permissionRequest)
	var kinds []string
	for _, body := range b.bodies {
		kinds = append(kinds, body.Kind())
	}
	// The question is the call itself: it is decided on once, after the call's start.
	if want := []string{"item.started", "call.started", "call.decided", "item.completed", "call.ended"}; !slices.Equal(kinds, want) {
		t.Errorf("published %q, want %q", kinds, want)
	}
	if q := b.asked; q.About != event.QuestionPermissions || q.Message != "to install it" || len(q.Wanted) != 2 ||
		!slices.Equal(q.Options, []string{approval.ApproveTurn, approval.ApproveSession, approval.Deny, approval.Abort}) {
		t.Errorf("the question is %+v", q)
	}
	b.asked = approval.Question{}
	w.do(t, "u1", "act", `{}`)
	if a := w.do(t, "u1", "request_permissions", permissionRequest); b.asked.About != "" || !strings.Contains(text(a), `"/w"`) {
		t.Errorf("asked again: %+v, %q", b.asked, text(a))
	}
	w.do(t, "u2", "act", `{}`)
	if b.asked.About == "" {
		t.Error("the next turn was not asked")
	}
	wanted.Write = []string{"/refused"}
	if a := w.do(t, "u2", "act", `{}`); a.Outcome != event.OutcomeError || !strings.Contains(text(a), "/refused can't be written") {
		t.Errorf("%s %q", a.Outcome, text(a))
	}
}
