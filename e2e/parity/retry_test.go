package parity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type retried struct {
	Attempt, Max int
	Cause        string
}

// An answer that was cut off is asked for again with the calls that it made, which have run, once, and what it said before
// them. What it said behind them is not kept, since the next answer says it anew.
func TestStreamIsCut(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(text("I look."), command("echo ran >> log"), text("partial")).cutOff(),
		reply(text("done")))
	s.turn("one")
	s.sees(
		"D X U1",
		"D X U1 A1 C1 O1")
	if got := s.Read("log"); got != "ran\n" {
		t.Errorf("the command ran as %q", got)
	}
	if got := events[retried](s, "stream.retried"); len(got) != 1 || got[0].Attempt != 1 || got[0].Max != 5 {
		t.Errorf("notices of a retry: %+v", got)
	}
	if e := s.end(); e.TurnUsage.Total != few || e.LastMessage != "done" {
		t.Errorf("the turn ended with %+v", e)
	}
}

// Words of answers that were cut off don't pile up.
func TestEveryStreamIsCut(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(text("partial")).cutOff(), reply(text("partial")).cutOff(), reply(text("partial")).cutOff(),
		reply(text("done")), reply(text("done")))
	s.turn("one")
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1",
		"D X U1",
		"D X U1",
		"D X U1 A1 U2")
}

// A service that is down is asked within one budget, in which the tries of the connection and those of the turn count alike.
func TestServiceIsDown(t *testing.T) {
	t.Parallel()
	down := refusing(500, "server_error", "down", "Retry-After-Ms", "1")
	var script []answer
	for range 12 {
		script = append(script, down)
	}
	s := start(t, script...)
	config := filepath.Join(s.Home, "gantry.hcl")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	s.Write(config, string(b)+"limits {\n  busy_wait = \"0s\"\n}\n")
	s.fails("one", "(asked 12 times)")
	if n := len(s.requests()); n != 12 {
		t.Errorf("%d requests", n)
	}
}

// A refusal before an answer begins is asked again without much ado, as soon as the service says.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first answer
	}{
		{"an internal error", refusing(500, "server_error", "down")},
		{"a limit of its rate that says when", refusing(429, "rate_limit_exceeded", "Please try again in 28ms.")},
		{"too much to do, which says when", refusing(503, "server_is_overloaded", "busy", "Retry-After-Ms", "1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.first, reply(text("done")))
			s.turn("one")
			s.sees("D X U1", "D X U1")
		})
	}
}

// What does not get better by asking again is asked once.
func TestFinalRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first answer
		want  string
	}{
		{"a quota", refusing(429, "insufficient_quota", "You exceeded your current quota."), "quota"},
		{"a bad request", refusing(400, "invalid_prompt", "This prompt is wrong."), "This prompt is wrong."},
		{"too long from the first word", failing("context_length_exceeded"), "context"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.first)
			s.fails("one", c.want)
			s.sees("D X U1")
		})
	}
}

// An error inside the stream that says when to come back.
func TestOverloadedInsideTheStream(t *testing.T) {
	t.Parallel()
	s := start(t, failing("server_is_overloaded"), reply(text("done")))
	s.turn("one")
	s.sees("D X U1", "D X U1")
	if got := events[retried](s, "stream.retried"); len(got) != 1 || !strings.Contains(got[0].Cause, "server_is_overloaded") {
		t.Errorf("notices of a retry: %+v", got)
	}
}

// A service that is not there yet is asked again until it is.
func TestServiceIsAway(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("done")))
	comes := s.goesAway()
	run := s.begin("one")
	run.Sees(`"stream.retried"`)
	comes()
	s.ended(run, "completed", "")
	s.sees("D X U1")
}
