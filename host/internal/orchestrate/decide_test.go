package orchestrate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/shellstate"
)

// book is a rulebook that records what is written.
type book struct {
	written []event.RuleOffer
	err     error
}

func (b *book) Offer(prefixes [][]string) event.RuleOffer {
	var lines []string
	for _, p := range prefixes {
		lines = append(lines, "allow "+strings.Join(p, " "))
	}
	return event.RuleOffer{Prefix: prefixes[0], Line: strings.Join(lines, "\n"), File: "my.rules"}
}

func (b *book) OfferTool(plugin, tool, descriptor string, _ []contract.Effect) event.RuleOffer {
	return event.RuleOffer{Line: "tool " + plugin + " " + tool + " " + descriptor, File: "my.rules"}
}

func (b *book) OfferHost(_, host string) *event.RuleOffer {
	return &event.RuleOffer{Host: host, Line: "allow " + host, Deny: "deny " + host, File: "my.rules"}
}

func (b *book) Write(_ context.Context, o event.RuleOffer) error {
	b.written = append(b.written, o)
	return b.err
}

func (b *bench) decided() []event.CallDecided {
	var out []event.CallDecided
	for _, body := range b.bodies {
		if d, ok := body.(event.CallDecided); ok {
			out = append(out, d)
		}
	}
	return out
}

func TestEveryDecisionIsAnEvent(t *testing.T) {
	rule := &rules.Prefix{Pattern: [][]string{{"x"}}, Path: "my.rules", Line: 7}
	for _, tc := range []struct {
		name    string
		policy  policy.Decision
		answer  approval.Answer
		askErr  error
		outcome event.Outcome
		want    event.CallDecided
	}{
		{"runs", policy.Decision{Verdict: policy.Run, Reason: "held", Rules: []*rules.Prefix{rule}}, approval.Answer{}, nil, event.OutcomeOK,
			event.CallDecided{Allowed: true, Verdict: "run", By: "policy", Reason: "held", Rules: []string{"my.rules:7"}}},
		{"forbidden", policy.Decision{Verdict: policy.Forbid, Reason: "no"}, approval.Answer{}, nil, event.OutcomeDenied,
			event.CallDecided{Verdict: "forbid", By: "policy", Reason: "no"}},
		{"approved", policy.Decision{Verdict: policy.Ask, Reason: "why"}, approval.Answer{Choice: approval.Approve, By: "user"}, nil, event.OutcomeOK,
			event.CallDecided{Allowed: true, Verdict: "ask", By: "user", Answer: "approve", Reason: "why"}},
		{"denied", policy.Decision{Verdict: policy.Ask}, approval.Answer{Choice: approval.Deny, By: "reviewer"}, nil, event.OutcomeDenied,
			event.CallDecided{Verdict: "ask", By: "reviewer", Answer: "deny"}},
		{"nobody", policy.Decision{Verdict: policy.Ask}, approval.Answer{}, approval.ErrNoApprover, event.OutcomeDenied,
			event.CallDecided{Verdict: "ask", By: "nobody"}},
		{"not in time", policy.Decision{Verdict: policy.Ask}, approval.Answer{By: approval.ByTimeout}, &approval.TimeoutError{After: time.Hour}, event.OutcomeDenied,
			event.CallDecided{Verdict: "ask", By: "timeout"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &bench{policy: tc.policy, answer: tc.answer, askErr: tc.askErr}
			a := b.run(t, assessed, `{}`)
			tc.want.Call = "c1"
			got := b.decided()
			if a.Outcome != tc.outcome || len(got) != 1 || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", tc.want) {
				t.Errorf("%s, %+v, want %+v", a.Outcome, got, tc.want)
			}
			if i, j := b.index("call.decided"), b.index("call.started"); j >= 0 && i > j {
				t.Errorf("decided after the start:\n%s", strings.Join(b.steps, "\n"))
			}
		})
	}
}

// Each answer has its scope. "Always" is only an option if a rule is offered, and writes that rule.
func TestAnswersHaveTheirScope(t *testing.T) {
	for _, tc := range []struct {
		choice   string
		offer    [][]string
		writeErr error
		outcome  event.Outcome
		step     string
		written  string
	}{
		{approval.ApproveTurn, nil, nil, event.OutcomeOK, "allow for the turn", ""},
		{approval.ApproveSession, nil, nil, event.OutcomeOK, "allow", ""},
		{approval.ApproveAlways, [][]string{{"git", "pull"}}, nil, event.OutcomeOK, "call 1 d", "allow git pull"},
		{approval.ApproveAlways, nil, nil, event.OutcomeDenied, "", ""},
		{approval.ApproveAlways, [][]string{{"git"}}, errors.New("disk full"), event.OutcomeOK, "notice", "allow git"},
	} {
		b, k := &bench{answer: approval.Answer{Choice: tc.choice}}, &book{err: tc.writeErr}
		b.policy, b.book = policy.Decision{Verdict: policy.Ask, Offer: tc.offer}, k
		a := b.run(t, assessed, `{}`)
		var written string
		for _, o := range k.written {
			written += o.Line
		}
		if a.Outcome != tc.outcome || tc.step != "" && !slices.Contains(b.steps, tc.step) || written != tc.written {
			t.Errorf("%s: %s, wrote %q:\n%s", tc.choice, a.Outcome, written, strings.Join(b.steps, "\n"))
		}
	}
}

// An approval for later calls is for a command with the content of the scripts that it names.
func TestApprovalsAreForContent(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{answer: approval.Answer{Choice: approval.ApproveSession}, policy: policy.Decision{Verdict: policy.Ask}}
	key := func(script string) string {
		b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
			return &contract.Assessment{Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"/bin/bash", "-c", script}, Cwd: dir}}}, nil
		}
		b.keys = nil
		b.run(t, assessed, `{}`)
		return strings.Join(b.keys, " ")
	}
	for _, tc := range []struct {
		script string
		bound  bool
	}{
		{"./deploy.sh now", true}, {"bash deploy.sh", true}, {"cd . && sh ./deploy.sh | cat", true}, {"ls > f; " + filepath.Join(dir, "deploy.sh"), true}, {"echo done", false},
	} {
		write("deploy.sh", "one")
		first, again := key(tc.script), key(tc.script)
		write("deploy.sh", "two")
		changed := key(tc.script)
		if first == "" || first != again || (first != changed) != tc.bound {
			t.Errorf("%q: %s, again %s, changed %s", tc.script, first, again, changed)
		}
	}
}

// A rule that allows all of a call lets it run outside of the sandbox.
func TestPolicyWidensTheGrant(t *testing.T) {
	b := &bench{policy: policy.Decision{Verdict: policy.Run, Wider: &contract.Escalation{Unsandboxed: true}}}
	b.run(t, assessed, `{}`)
	if b.granted == nil || !b.granted.Unsandboxed {
		t.Errorf("the grant was asked for with %+v", b.granted)
	}
}

// Text of models and plugins is bounded, and hides nothing (row X18 of the attack list).
func TestQuestionsShowWhatTheyAre(t *testing.T) {
	b := &bench{answer: approval.Answer{Choice: approval.Deny}}
	b.policy = policy.Decision{Verdict: policy.Ask, Reason: "a\x1b[2Jb\u202ec"}
	b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
		return &contract.Assessment{
			Effects: []contract.Effect{contract.OtherEffect{Label: "x"}}, Summary: strings.Repeat("ä", 1<<20),
			Escalation: &contract.Escalation{Justification: "line\nline\r\x00" + strings.Repeat("x", 1<<20)},
		}, nil
	}
	b.run(t, assessed, `{}`)
	q := b.asked
	if q.Reason != "a\uFFFD[2Jb\uFFFDc" || !strings.HasPrefix(q.Message, "line\nline\uFFFD\uFFFDxxx") {
		t.Errorf("reason %q, message %.40q", q.Reason, q.Message)
	}
	if len(q.Title) > 2<<10 || len(q.Message) > 8<<10 || !strings.HasSuffix(q.Title, "…") {
		t.Errorf("the title has %d bytes, the message %d", len(q.Title), len(q.Message))
	}
}

// A process that was not declared is subject to the rules, and gets nothing that was approved for another.
func TestUndeclaredProcesses(t *testing.T) {
	forbids, err := rules.Load([]rules.Source{{Path: "my.rules", Text: `prefix_rule(pattern=["factor"], decision="forbidden", justification="no")` + "\n" +
		`prefix_rule(pattern=["hg"], decision="prompt")`}})
	if err != nil {
		t.Fatal(err)
	}
	declared := contract.ExecEffect{Argv: []string{"bash", "-c", "ls"}, Cwd: "/ws"}
	for _, tc := range []struct {
		name   string
		wide   bool
		argv   []string
		cwd    string
		answer string
		denial string
		set    map[string]string
		unset  []string
	}{
		{"the declared one", true, declared.Argv, "/ws", "", "", nil, nil},
		{"with variables that make it plain", true, declared.Argv, "/ws", "", "", map[string]string{"NO_COLOR": "1", "PAGER": "cat", "LC_ALL": "C.UTF-8", "GANTRY_THREAD_ID": "t", "GANTRY_TOOL_CALL_ID": "c1"}, nil},
		{"with a variable of its own", true, declared.Argv, "/ws", "", "change GIT_DIR;", map[string]string{"GIT_DIR": "x", "TERM": "dumb"}, nil},
		{"with a pager of its own", true, declared.Argv, "/ws", "", "change PAGER;", map[string]string{"PAGER": "/tmp/x"}, nil},
		{"with a locale by path", true, declared.Argv, "/ws", "", "change LC_ALL;", map[string]string{"LC_ALL": "/tmp/x"}, nil},
		{"with another call's id", true, declared.Argv, "/ws", "", "change GANTRY_TOOL_CALL_ID;", map[string]string{"GANTRY_TOOL_CALL_ID": "c2"}, nil},
		{"without a variable", true, declared.Argv, "/ws", "", "change HOME, PATH;", nil, []string{"PATH", "HOME"}},
		{"with any variable in its sandbox", false, declared.Argv, "/ws", "", "", map[string]string{"GIT_DIR": "x"}, []string{"PATH"}},
		{"a helper", false, []string{"/opt/helper", "apply"}, "/ws", "", "", nil, nil},
		{"a forbidden one", false, []string{"env", "factor", "13"}, "/ws", "", "rejected: no", nil, nil},
		{"one to ask about, approved", false, []string{"hg", "push"}, "/ws", approval.Approve, "", nil, nil},
		{"one to ask about, denied", false, []string{"hg", "push"}, "/ws", approval.Deny, "rejected by user", nil, nil},
		{"the declared one in a state", false, []string{"bash", "-c", shellstate.Script(2, "ls")}, "/ws", approval.Deny, "", nil, nil},
		{"a state alone", false, []string{"bash", "-lc", shellstate.Script(1, "")}, "/ws", approval.Deny, "", nil, nil},
		{"another one in a state", false, []string{"bash", "-c", shellstate.Script(1, "factor 13")}, "/ws", approval.Deny, "rejected", nil, nil},
		{"the declared one in a state and another shell", false, []string{"/tmp/bash", "-c", shellstate.Script(1, "ls")}, "/ws", approval.Deny, "rejected", nil, nil},
		{"the approved one in a state", true, []string{"bash", "-c", shellstate.Script(1, "ls")}, "/ws", "", "approved for another command", nil, nil},
		{"another folder than the approved", true, declared.Argv, "/", "", "approved for the folder /ws, not for /", nil, nil},
		{"another than the approved", true, []string{"sh", "-c", "touch /x"}, "/ws", "", "approved for another command", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &family{bench: &bench{answer: approval.Answer{Choice: tc.answer}}}
			f.decide = func(q policy.Request) policy.Decision {
				if tc.wide {
					return policy.Decision{Verdict: policy.Run, Wider: &contract.Escalation{Unsandboxed: true}}
				}
				q.Approval, q.Rules, q.Sandbox = policy.OnRequest, forbids, "workspace-write"
				return policy.Decide(q)
			}
			f.effects = []contract.Effect{declared}
			var denial string
			f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, ctl tool.Control) (*contract.Result, error) {
				over, stopped := make(chan struct{}), make(chan struct{})
				go func() { // owned by the call: ends when over closes, which is waited for
					defer close(stopped)
					for {
						select {
						case <-ctl.Waits:
						case <-over:
							return
						}
					}
				}()
				defer func() { close(over); <-stopped }()
				var err error
				denial, err = l.Exec(ctx, orchestrate.Start{Argv: tc.argv, Cwd: tc.cwd, Set: tc.set, Unset: tc.unset})
				return contract.Text("ok"), err
			}
			if a := f.dispatch(t, t.Context()); text(a) != "ok" {
				t.Fatalf("%+v %q", a, text(a))
			}
			if (denial == "") != (tc.denial == "") || !strings.Contains(denial, tc.denial) {
				t.Errorf("denial %q, want %q", denial, tc.denial)
			}
		})
	}
}

// A login shell without state to restore is started as a plain shell. The command is not asked about again.
func TestDeclaredCommandInAPlainShell(t *testing.T) {
	asks, err := rules.Load([]rules.Source{{Path: "my.rules", Text: `prefix_rule(pattern=["hg"], decision="prompt")`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"zsh", "-c", "hg push"}, {"zsh", "-f", "-c", "hg push"}, {"zsh", "-lc", "hg push"}, {"zsh", "-f", "-c", shellstate.ZshScript(1, "hg push")}} {
		f := &family{bench: &bench{answer: approval.Answer{Choice: approval.Approve}}}
		f.decide = func(q policy.Request) policy.Decision {
			q.Approval, q.Rules, q.Sandbox = policy.OnRequest, asks, "workspace-write"
			return policy.Decide(q)
		}
		f.effects = []contract.Effect{contract.ExecEffect{Argv: []string{"zsh", "-lc", "hg push"}, Cwd: "/ws"}}
		f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, _ tool.Control) (*contract.Result, error) {
			denial, err := l.Exec(ctx, orchestrate.Start{Argv: argv, Cwd: "/ws"})
			return contract.Text("ok" + denial), err
		}
		if a := f.dispatch(t, t.Context()); text(a) != "ok" || strings.Count(strings.Join(f.steps, "\n"), "ask ") != 1 {
			t.Errorf("%q: %q after\n%s", argv, text(a), strings.Join(f.steps, "\n"))
		}
	}
}
