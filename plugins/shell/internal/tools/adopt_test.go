//go:build unix

package tools_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// as gives a call an id of its own.
func as(id string) func(*contract.CallStart) {
	return func(s *contract.CallStart) { s.CallID = id }
}

// next stops the process and starts the one after it. unanswered are the calls whose results did not arrive.
func (r *rig) next(unanswered ...string) *rig {
	r.t.Helper()
	r.stop()
	r.host.NextGeneration(unanswered...)
	return newRig(r.t, rigOptions{after: r})
}

// sessions are those that the thread has heard of: by number, whether it was resumed.
func (r *rig) sessions() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]bool{}
	for _, e := range r.events {
		if o, ok := e.(contract.SessionOpened); ok {
			out[o.SessionID] = o.Resumed
		}
	}
	return out
}

// exists returns when a command has made a file.
func (r *rig) exists(name string) {
	r.t.Helper()
	r.call("exec_command", object{"cmd": "until [ -e " + name + " ]; do sleep 0.01; done", "login": false, "yield_time_ms": 30000})
}

// shows returns when the thread has heard of a session's output.
func (r *rig) shows(id int, text string) {
	r.t.Helper()
	r.await(text, func(events []contract.ThreadEvent) bool {
		var all string
		for _, e := range events {
			if o, ok := e.(contract.SessionOutput); ok && o.SessionID == strconv.Itoa(id) {
				all += string(o.Data)
			}
		}
		return strings.Contains(all, text)
	})
}

func TestNextProcessAdoptsSessions(t *testing.T) {
	r := newRig(t, rigOptions{})
	wait := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.01; done; " }
	terminal, _ := r.open(object{"cmd": "stty -echo; touch t1; while read l; do echo got $l; done", "tty": true})
	pipe, _ := r.open(object{"cmd": "echo up; " + wait("p1") + "printf 'half \\342\\202'; touch p2; " + wait("p3") + "printf '\\254 euro'; touch p4; sleep 1000"})
	ends, _ := r.open(object{"cmd": "echo up; " + wait("e1") + "echo last words; exit 9"})
	touch(t, r.cwd, "p1")
	r.exists("p2")
	r.shows(pipe, "half ")
	r.exists("t1")
	r = r.next()
	touch(t, r.cwd, "p3")
	touch(t, r.cwd, "e1")
	r.exists("p4")
	a := r.call("write_stdin", object{"session_id": pipe, "chars": "\x03", "yield_time_ms": 30000})
	if want := exited(130, 4, "half € euro"); a.tail() != want {
		t.Errorf("pipe: %q, want %q", a.tail(), want)
	}
	a = r.call("write_stdin", object{"session_id": ends, "yield_time_ms": 30000})
	if want := exited(9, 3, "last words\n"); a.tail() != want {
		t.Errorf("one that ended: %q, want %q", a.tail(), want)
	}
	a = r.call("write_stdin", object{"session_id": terminal, "chars": "a\nb\n\x04", "yield_time_ms": 30000})
	if want := exited(0, 4, "got a\r\ngot b\r\n"); a.tail() != want {
		t.Errorf("terminal: %q, want %q", a.tail(), want)
	}
	for _, id := range []int{terminal, pipe, ends} {
		if resumed, told := r.sessions()[strconv.Itoa(id)]; !told || !resumed {
			t.Errorf("session %d: told %v, resumed %v", id, told, resumed)
		}
	}
	// The third process knows what became of them.
	r = r.next()
	a = r.call("write_stdin", object{"session_id": ends})
	want := fmt.Sprintf("write_stdin failed: Unknown process id %d (it exited with code 9)", ends)
	if !strings.HasPrefix(a.text(), want) {
		t.Errorf("after its end: %q, want %q", a.text(), want)
	}
	if len(r.sessions()) != 0 {
		t.Errorf("sessions that are over were opened again: %v", r.sessions())
	}
}

// What was collected for a call whose result did not arrive is returned to the next one, with the end if it had that.
func TestUndeliveredOutputIsReturnedAgain(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "echo up; until [ -e go ]; do sleep 0.01; done; echo end; exit 4"})
	touch(t, r.cwd, "go")
	poll := object{"session_id": id, "yield_time_ms": 30000}
	lost := r.start("write_stdin", poll, r.assess("write_stdin", poll), as("lost")).wait()
	if lost.tail() != exited(4, 1, "end\n") {
		t.Fatalf("first: %q", lost.tail())
	}
	r = r.next("lost")
	if a := r.call("write_stdin", poll); a.tail() != lost.tail() {
		t.Errorf("again: %q, want %q", a.tail(), lost.tail())
	}
	r = r.next("lost") // of the one before
	if a := r.call("write_stdin", poll); !strings.Contains(a.text(), "exited with code 4") {
		t.Errorf("a third time: %q", a.text())
	}
}

// A session whose call got no answer is announced to the model until the model uses its ID.
func TestSessionsOfUnansweredCallsAreAnnounced(t *testing.T) {
	r := newRig(t, rigOptions{})
	args := object{"cmd": "echo up; touch started; sleep 1000", "login": false, "yield_time_ms": 30000}
	lost := r.start("exec_command", args, r.assess("exec_command", args), as("lost"))
	lost.until(func(e contract.CallEvent) bool { return lost.a.output == "up\n" })
	r = r.next("lost", "call-1") // as the host names the call that started it
	var text string
	r.await("the text about the command", func(events []contract.ThreadEvent) bool {
		for _, e := range events {
			if c, ok := e.(contract.ContextText); ok && c.Key == "sessions" {
				text = c.Text
			}
		}
		return text != ""
	})
	number, ok := strings.CutSuffix(text[strings.LastIndex(text, "Session ID ")+len("Session ID "):], ": echo up; touch started; sleep 1000")
	id, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatalf("the model is told %q", text)
	}
	if a := r.call("write_stdin", object{"session_id": id, "chars": "\x03"}); a.tail() != exited(130, 1, "up\n") {
		t.Errorf("its output: %q", a.tail())
	}
	r.await("the text goes", func(events []contract.ThreadEvent) bool {
		last := contract.ContextText{Text: "?"}
		for _, e := range events {
			if c, ok := e.(contract.ContextText); ok {
				last = c
			}
		}
		return last.Text == ""
	})
}

// Where memory can't travel what was not returned is missing, and the model reads so.
func TestNextProcessWithoutMemory(t *testing.T) {
	r := newRig(t, rigOptions{host: processtest.Options{Attach: true}})
	id, _ := r.open(object{"cmd": "echo up; sleep 1000"})
	r = r.next()
	a := r.call("write_stdin", object{"session_id": id, "chars": "\x03"})
	if !strings.Contains(a.text(), "the plugin was restarted here") {
		t.Errorf("output: %q", a.text())
	}
}

// A drain ends waiting: the next process is not kept from its sessions by a call that only looks.
func TestDrainEndsWaiting(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "sleep 1000"})
	poll := object{"session_id": id, "yield_time_ms": 300000}
	run := r.start("write_stdin", poll, r.assess("write_stdin", poll), nil)
	run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Started); return ok })
	if d, err := r.plug.Drain(context.Background(), &gantryv1.DrainRequest{DeadlineMs: 60_000}); err != nil || d.GetStillRunning() != 0 {
		t.Errorf("drain: %v, %v", d, err)
	}
	if a := run.wait(); a.SessionID != strconv.Itoa(id) {
		t.Errorf("the call that waited: %q", a.text())
	}
}
