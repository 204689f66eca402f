//go:build unix

package tools_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// open starts a command that keeps running after the call.
func (r *rig) open(args object) (int, *answer) {
	r.t.Helper()
	args["yield_time_ms"] = 250
	args["login"] = false
	a := r.call("exec_command", args)
	return sessionOf(r.t, a), a
}

func TestPoll(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, a := r.open(object{"cmd": "echo start; until [ -e go ]; do sleep 0.01; done; echo end"})
	if want := fmt.Sprintf("Process running with session ID %d\nOriginal token count: 2\nOutput:\nstart\n", id); a.tail() != want {
		t.Errorf("first: %q, want %q", a.tail(), want)
	}
	if item := a.Item.(*contract.CommandItem); item.ExitCode != nil || item.SessionID != strconv.Itoa(id) {
		t.Errorf("item = %+v", item)
	}
	assessment := r.assess("write_stdin", object{"session_id": id})
	if !assessment.ReadOnly || len(assessment.Effects) != 0 || assessment.Summary != fmt.Sprintf("write_stdin --session-id %d", id) {
		t.Errorf("assessment = %+v", assessment)
	}
	run := r.start("write_stdin", object{"session_id": id, "yield_time_ms": 30000}, assessment, nil)
	run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Started); return ok })
	touch(t, r.cwd, "go")
	b := run.wait()
	if b.tail() != exited(0, 1, "end\n") || b.SessionID != "" {
		t.Errorf("second: %q", b.text())
	}
	if item := b.Item.(*contract.CommandItem); item.ExitCode == nil || *item.ExitCode != 0 || item.Command != assessment.Summary {
		t.Errorf("item = %+v", item)
	}
	// Replaces the vector that ends with `Unknown process id N` alone: a known defect.
	c := r.call("write_stdin", object{"session_id": id})
	want := fmt.Sprintf("write_stdin failed: Unknown process id %d (it exited with code 0). Its output ended with:\nstart\nend\n", id)
	if c.text() != want || !c.IsError || !c.early {
		t.Errorf("third: %q, want %q", c.text(), want)
	}
	if d := r.call("write_stdin", object{"session_id": 5}); d.text() != "write_stdin failed: Unknown process id 5" {
		t.Errorf("never there: %q", d.text())
	}
}

func TestSessionsOfOtherThreadsAreUnknown(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "cat", "tty": true})
	a := r.start("write_stdin", object{"session_id": id}, r.assess("write_stdin", object{"session_id": id}), func(s *contract.CallStart) {
		s.ThreadID = "other"
	}).wait()
	if want := fmt.Sprintf("write_stdin failed: Unknown process id %d", id); a.text() != want {
		t.Errorf("text = %q, want %q", a.text(), want)
	}
}

func TestTyping(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "cat", "tty": true})
	args := object{"session_id": id, "chars": "hello\n", "yield_time_ms": 300}
	assessment := r.assess("write_stdin", args)
	want := contract.SessionInputEffect{SessionID: strconv.Itoa(id), Text: "hello\n"}
	if assessment.ReadOnly || len(assessment.Effects) != 1 || assessment.Effects[0] != want || assessment.Discriminators != nil ||
		assessment.Summary != fmt.Sprintf(`write_stdin --session-id %d 'hello\n'`, id) {
		t.Errorf("assessment = %+v", assessment)
	}
	a := r.call("write_stdin", args)
	if !strings.HasSuffix(a.text(), "Output:\nhello\r\nhello\r\n") || sessionOf(t, a) != id {
		t.Errorf("typed: %q", a.text())
	}
	b := r.call("write_stdin", object{"session_id": id, "chars": "\x04"})
	if !strings.HasPrefix(b.tail(), "Process exited with code 0\n") {
		t.Errorf("end of input: %q", b.text())
	}
}

func TestTypingIntoAnEscalatedSession(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "cat", "tty": true, "sandbox_permissions": "require_escalated"})
	a := r.assess("write_stdin", object{"session_id": id, "chars": "x"})
	if len(a.Discriminators) != 1 {
		t.Errorf("discriminators = %v", a.Discriminators)
	}
}

func TestPipeSessionTakesOnlyCtrlC(t *testing.T) {
	r := newRig(t, rigOptions{})
	trap, _ := r.open(object{"cmd": "trap 'echo got int; exit 9' INT; while :; do sleep 0.05; done"})
	const closed = "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
	for _, chars := range []string{"abc", "\x03\x03"} {
		if a := r.call("write_stdin", object{"session_id": trap, "chars": chars}); a.text() != closed || !a.early {
			t.Errorf("%q: %q, want %q", chars, a.text(), closed)
		}
	}
	a := r.call("write_stdin", object{"session_id": trap, "chars": "\x03", "yield_time_ms": 10000})
	if a.tail() != exited(9, 2, "got int\n") {
		t.Errorf("trapped: %q", a.text())
	}
	usual, _ := r.open(object{"cmd": "sleep 100"})
	a = r.call("write_stdin", object{"session_id": usual, "chars": "\x03", "yield_time_ms": 10000})
	if a.tail() != exited(130, 0, "") {
		t.Errorf("default: %q", a.text())
	}
}

func TestInterruptedPollLosesNothing(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "until [ -e go ]; do sleep 0.01; done; echo more; until [ -e on ]; do sleep 0.01; done"})
	args := object{"session_id": id}
	run := r.start("write_stdin", args, r.assess("write_stdin", args), nil)
	run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Started); return ok })
	touch(t, r.cwd, "go")
	r.await("output", func(es []contract.ThreadEvent) bool { return strings.Contains(sessionOutput(es, id), "more\n") })
	run.cancel("interrupted")
	a := run.wait()
	if !a.Aborted || !regexp.MustCompile(`^Wall time: \d+\.\d seconds\naborted by user$`).MatchString(a.text()) {
		t.Errorf("aborted: %q", a.text())
	}
	touch(t, r.cwd, "on")
	if b := r.call("write_stdin", args); b.tail() != exited(0, 2, "more\n") {
		t.Errorf("afterwards: %q", b.text())
	}
}

func sessionOutput(es []contract.ThreadEvent, id int) string {
	var out string
	for _, e := range es {
		if o, ok := e.(contract.SessionOutput); ok && o.SessionID == strconv.Itoa(id) {
			out += string(o.Data)
		}
	}
	return out
}

func endOf(es []contract.ThreadEvent, id int) (contract.SessionExited, bool) {
	for _, e := range es {
		if x, ok := e.(contract.SessionExited); ok && x.SessionID == strconv.Itoa(id) {
			return x, true
		}
	}
	return contract.SessionExited{}, false
}

func TestSessionEventsReachTheThread(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "echo shown in the call; until [ -e go ]; do sleep 0.01; done; echo shown later; exit 3"})
	touch(t, r.cwd, "go")
	r.await("the end", func(es []contract.ThreadEvent) bool { _, ok := endOf(es, id); return ok })
	r.mu.Lock()
	defer r.mu.Unlock()
	opened, ok := r.events[0].(contract.SessionOpened)
	if !ok || opened.SessionID != strconv.Itoa(id) || opened.CallID != "call" || !strings.HasPrefix(opened.Title, "echo shown in the call") {
		t.Errorf("first: %+v", r.events[0])
	}
	if got := sessionOutput(r.events, id); got != "shown later\n" {
		t.Errorf("output = %q", got)
	}
	if x, _ := endOf(r.events, id); x.ExitCode != 3 || x.End != contract.SessionEndExited {
		t.Errorf("end = %+v", x)
	}
}

func TestQuickCommandIsNoSession(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.call("exec_command", plain("echo x"))
	id, _ := r.open(object{"cmd": "sleep 100"})
	r.await("a session", func(es []contract.ThreadEvent) bool { return len(es) > 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.events[0].(contract.SessionOpened); o.SessionID != strconv.Itoa(id) {
		t.Errorf("first: %+v", o)
	}
}

func TestStopSessionAndEndThread(t *testing.T) {
	r := newRig(t, rigOptions{})
	a, _ := r.open(object{"cmd": "sleep 100"})
	b, _ := r.open(object{"cmd": "cat", "tty": true})
	ctx := context.Background()
	for _, id := range []string{strconv.Itoa(a), "77", "no number"} {
		if _, err := r.tools.StopSession(ctx, &gantryv1.StopSessionRequest{ThreadId: "thread", SessionId: id}); err != nil {
			t.Errorf("stop %s: %v", id, err)
		}
	}
	r.await("the end of the stopped one", func(es []contract.ThreadEvent) bool {
		x, ok := endOf(es, a)
		return ok && x.ExitCode == 137
	})
	// It still has an end to tell.
	if p := r.call("write_stdin", object{"session_id": a}); p.tail() != exited(137, 0, "") {
		t.Errorf("poll of the stopped one: %q", p.text())
	}
	if _, err := r.tools.EndThread(ctx, &gantryv1.EndThreadRequest{ThreadId: "thread"}); err != nil {
		t.Fatal(err)
	}
	r.await("the end of the other", func(es []contract.ThreadEvent) bool { _, ok := endOf(es, b); return ok })
	if p := r.call("write_stdin", object{"session_id": b}); p.text() != fmt.Sprintf("write_stdin failed: Unknown process id %d", b) {
		t.Errorf("after the thread: %q", p.text())
	}
}

func TestTwoCallsOnOneSession(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "until [ -e go ]; do sleep 0.01; done; echo end"})
	args := object{"session_id": id, "yield_time_ms": 30000}
	assessment := r.assess("write_stdin", args)
	var runs []*running
	for range 2 {
		run := r.start("write_stdin", args, assessment, nil)
		run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Started); return ok })
		runs = append(runs, run)
	}
	touch(t, r.cwd, "go")
	texts := []string{runs[0].wait().text(), runs[1].wait().text()}
	slices.Sort(texts)
	if !strings.HasSuffix(texts[0], "\nend\n") || !strings.HasPrefix(texts[1], fmt.Sprintf("write_stdin failed: Unknown process id %d (it exited with code 0)", id)) {
		t.Errorf("texts = %q", texts)
	}
}
