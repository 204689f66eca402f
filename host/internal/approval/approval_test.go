package approval

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type log struct {
	mu     sync.Mutex
	bodies []event.Body
}

func (l *log) Publish(_ context.Context, _ event.TurnID, bodies ...event.Body) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, bodies...)
	return uint64(len(l.bodies)), nil
}

func (l *log) asked() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bodies[0].(event.QuestionAsked).ID
}

func (l *log) resolved(t *testing.T) event.QuestionResolved {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.bodies) != 2 {
		t.Fatalf("%d events, want the question and its end", len(l.bodies))
	}
	return l.bodies[1].(event.QuestionResolved)
}

func TestAskWithoutAClient(t *testing.T) {
	l := &log{}
	d := NewBroker(l)
	if _, err := d.Ask(t.Context(), Question{}); !errors.Is(err, ErrNoApprover) {
		t.Errorf("Ask = %v, want %v", err, ErrNoApprover)
	}
	d.Attend()()
	if _, err := d.Ask(t.Context(), Question{}); !errors.Is(err, ErrNoApprover) {
		t.Errorf("Ask after everybody left = %v, want %v", err, ErrNoApprover)
	}
	if len(l.bodies) != 0 {
		t.Errorf("a question that nobody can answer was shown: %v", l.bodies)
	}
}

func TestFirstAnswerIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		d := NewBroker(l)
		defer d.Attend()()
		got := make(chan Answer, 1)
		go func() { // owned by the test: received below
			a, err := d.Ask(t.Context(), Question{Title: "rm"})
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		synctest.Wait()
		if err := d.Resolve(l.asked(), Answer{Choice: Deny, By: "user"}); err != nil {
			t.Fatal(err)
		}
		if err := d.Resolve(l.asked(), Answer{Choice: Approve, By: "user"}); !errors.Is(err, ErrUnknownQuestion) {
			t.Errorf("second answer = %v, want %v", err, ErrUnknownQuestion)
		}
		if a := <-got; a.Choice != Deny {
			t.Errorf("answer = %+v", a)
		}
		if r := l.resolved(t); r.Answer != Deny || r.By != "user" {
			t.Errorf("resolved = %+v", r)
		}
	})
}

func TestCancelledQuestionIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		d := NewBroker(l)
		defer d.Attend()()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := d.Ask(ctx, Question{})
			done <- err
		}()
		synctest.Wait()
		cause := errors.New("interrupted")
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("Ask = %v, want %v", err, cause)
		}
		if r := l.resolved(t); r.By != "cancelled" {
			t.Errorf("resolved = %+v", r)
		}
		if err := d.Resolve(l.asked(), Answer{Choice: Approve}); !errors.Is(err, ErrUnknownQuestion) {
			t.Errorf("late answer = %v", err)
		}
	})
}

func TestKeys(t *testing.T) {
	ls := []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}, Cwd: "/a"}}
	base := Keys("d1", ls, nil, nil)
	for name, other := range map[string][]string{
		"another descriptor":     Keys("d2", ls, nil, nil),
		"another folder":         Keys("d1", []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}, Cwd: "/b"}}, nil, nil),
		"a discriminator":        Keys("d1", ls, nil, []string{"x"}),
		"another kind":           Keys("d1", []contract.Effect{contract.OtherEffect{Label: "ls"}}, nil, nil),
		"no effects":             Keys("d1", nil, nil, nil),
		"another argument":       Keys("d1", []contract.Effect{contract.ExecEffect{Argv: []string{"ls", "-l"}, Cwd: "/a"}}, nil, nil),
		"a terminal":             Keys("d1", []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}, Cwd: "/a", TTY: true}}, nil, nil),
		"outside of the sandbox": Keys("d1", ls, &contract.Escalation{Unsandboxed: true}, nil),
		"something more":         Keys("d1", ls, &contract.Escalation{Additional: ls}, nil),
		"the same and one more":  Keys("d1", append(ls, contract.OtherEffect{Label: "x"}), nil, nil)[1:],
	} {
		if other[0] == base[0] {
			t.Errorf("%s has the same key", name)
		}
	}
	for name, same := range map[string][]string{
		"the same by a shell": Keys("d1", []contract.Effect{contract.ExecEffect{Argv: []string{"bash", "-lc", "ls"}, Cwd: "/a", ShellText: "ls"}}, nil, nil),
		"another shell":       Keys("d1", []contract.Effect{contract.ExecEffect{Argv: []string{"zsh", "-c", " ls"}, Cwd: "/a", ShellText: " ls"}}, nil, nil),
		"another reason":      Keys("d1", ls, &contract.Escalation{Justification: "because", PrefixRule: []string{"ls"}}, nil),
	} {
		if same[0] != base[0] {
			t.Errorf("%s has another key", name)
		}
	}
	d := NewBroker(&log{})
	both := Keys("d1", append(ls, contract.OtherEffect{Label: "x"}), nil, nil)
	d.Allow(base)
	if !d.Allowed("t1", base) || d.Allowed("t1", both) || d.Allowed("t1", nil) {
		t.Error("a call is allowed when all of its keys are, and never without keys")
	}
}

// Keys that are allowed for a turn are not allowed in the next one.
func TestAllowedForTheTurn(t *testing.T) {
	d := NewBroker(&log{})
	d.AllowTurn("t1", []string{"a"})
	d.AllowTurn("t1", []string{"b"})
	if !d.Allowed("t1", []string{"a", "b"}) || d.Allowed("t2", []string{"a"}) {
		t.Error("in its turn, and only there")
	}
	d.AllowTurn("t2", []string{"c"})
	d.Allow([]string{"s"})
	if d.Allowed("t2", []string{"a"}) || !d.Allowed("t2", []string{"c", "s"}) || d.Allowed("t1", []string{"a"}) {
		t.Error("another turn begins with nothing")
	}
}

// A question survives a short absence of all clients, but not a long one.
func TestAllClientsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		d := NewBroker(l)
		leave := d.Attend()
		done := make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := d.Ask(t.Context(), Question{})
			done <- err
		}()
		synctest.Wait()
		leave()
		time.Sleep(returnTimeout - time.Second)
		leave = d.Attend() // comes back
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("the question ended though somebody is there: %v", err)
		default:
		}
		began := time.Now()
		leave()
		if err := <-done; !errors.Is(err, ErrNoApprover) {
			t.Errorf("Ask = %v, want %v", err, ErrNoApprover)
		}
		if took := time.Since(began); took != returnTimeout {
			t.Errorf("waited %v", took)
		}
		if r := l.resolved(t); r.By != "cancelled" {
			t.Errorf("resolved = %+v", r)
		}
	})
}

// A call of a client's tool waits for clients that run it, and for no one else: it fails when the last one leaves, has no time limit, and is
// not reported as a question to a person. Its answer is stored by the call.
func TestQuestionsToClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		d := NewBroker(l)
		d.Timeout = time.Minute
		d.OnQuestion(func(q event.QuestionAsked) { t.Errorf("a person was asked %+v", q) })
		defer d.Attend()()
		call := Question{About: event.QuestionClientTool, Tool: &event.ToolCall{Name: "beep"}}
		if _, err := d.Ask(t.Context(), call); !errors.Is(err, ErrNoApprover) {
			t.Errorf("without a client: %v", err)
		}
		first, second := d.ServeTools(), d.ServeTools()
		answers := make(chan Answer, 1)
		ask := func() {
			l.mu.Lock()
			l.bodies = nil
			l.mu.Unlock()
			a, err := d.Ask(t.Context(), call)
			if err != nil {
				a.Choice = err.Error()
			}
			answers <- a
		}
		go ask() // owned by the test: received below
		synctest.Wait()
		first()
		time.Sleep(time.Hour)
		if err := d.Resolve(l.asked(), Answer{Data: json.RawMessage(`{"success":true}`), By: "user"}); err != nil {
			t.Fatal(err)
		}
		if a := <-answers; string(a.Data) != `{"success":true}` {
			t.Errorf("answer %+v", a)
		}
		if r := l.resolved(t); r.Data != nil || r.By != "user" {
			t.Errorf("resolved %+v", r)
		}
		go ask() // owned by the test: received below
		synctest.Wait()
		began := time.Now()
		second()
		if a := <-answers; a.Choice != ErrNoApprover.Error() || time.Since(began) != 0 {
			t.Errorf("answer %+v, after %v", a, time.Since(began))
		}
	})
}

// Permissions for a turn end with it; permissions for the session don't.
func TestPermissionsHaveTheirScope(t *testing.T) {
	d := NewBroker(nil)
	d.Permit("t1", policy.Permissions{Write: []string{"/turn"}}, false)
	d.Permit("t1", policy.Permissions{Network: true}, true)
	if all, session := d.Permitted("t1"); !all.Covers(policy.Permissions{Write: []string{"/turn"}, Network: true}) || len(session.Write) > 0 || !session.Network {
		t.Errorf("in its turn: %+v, of it for the session %+v", all, session)
	}
	if all, _ := d.Permitted("t2"); len(all.Write) > 0 || !all.Network {
		t.Errorf("in the next turn: %+v", all)
	}
	d.AllowTurn("t2", []string{"k"})
	if all, _ := d.Permitted("t1"); len(all.Write) > 0 {
		t.Errorf("a turn that is over has %+v", all)
	}
}

// A question that no one answers in time is refused, although a client is there, and an answer that comes later is too late.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		d := NewBroker(l)
		d.Timeout = time.Hour
		defer d.Attend()()
		began := time.Now()
		a, err := d.Ask(t.Context(), Question{})
		late, ok := errors.AsType[*TimeoutError](err)
		if !ok || late.After != time.Hour || !errors.Is(err, ErrNoApprover) || a.By != ByTimeout || time.Since(began) != time.Hour {
			t.Errorf("answer %+v, %v, after %v", a, err, time.Since(began))
		}
		if r := l.resolved(t); r.By != "timeout" || r.Answer != "" {
			t.Errorf("resolved = %+v", r)
		}
		l = &log{}
		d = NewBroker(l)
		defer d.Attend()()
		answered := make(chan Answer, 1)
		go func() { // owned by the test: received below
			a, _ := d.Ask(t.Context(), Question{Title: "again"})
			answered <- a
		}()
		time.Sleep(1000 * time.Hour)
		if len(answered) > 0 {
			t.Error("without a timeout, a question has ended by itself")
		}
		if err := d.Resolve(l.asked(), Answer{Choice: Approve, By: "user"}); err != nil {
			t.Error(err)
		}
		if a := <-answered; a.Choice != Approve {
			t.Errorf("answer %+v", a)
		}
	})
}
