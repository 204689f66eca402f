package parity_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A turn without calls, a turn with one, and what every request carries.
func TestOneTurn(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(text("hello")),
		reply(thought("I should look."), text("I look."), command("echo found")),
		reply(text("done")))
	s.turn("one")
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U2 R1 A2 C1 O1")
	q := s.requests()[2]
	if got := q.output(1); !strings.Contains(got, "found") {
		t.Errorf("the output of the command: %q", got)
	}
	// What the service has said it gets back by the names that it gave.
	var ids []string
	for _, raw := range q.Input {
		if it := itemOf(raw); it.ID != "" {
			ids = append(ids, it.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "msg_1_0 rs_2_0 msg_2_1 fc_2_2" {
		t.Errorf("ids of items: %s", got)
	}
	if e := s.end(); e.LastMessage != "done" || e.TurnUsage.Total != 2*few || e.Usage.Total != 3*few {
		t.Errorf("the turn ended with %+v", e)
	}
}

// Calls run side by side and are told in the order of the answer, whichever ends first. One of a tool that there is none of is
// answered like the others.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(gate("first"), call("nope", "{}"), command("echo second")),
		reply(text("done")))
	run := s.begin("one")
	s.Until("the second command has ended", func() bool {
		s.last = rig.Events(t, run.Stdout())
		for _, e := range events[struct{ Item struct{ Command string } }](s, "item.completed") {
			if e.Item.Command == "echo second" {
				return true
			}
		}
		return false
	})
	s.Write("first", "")
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 C1 C2 C3 O1 O2 O3")
	q := s.requests()[1]
	for n, want := range []string{"through first", "unsupported call: nope", "second"} {
		if got := q.output(n + 1); !strings.Contains(got, want) {
			t.Errorf("output %d: %q, want %q", n+1, got, want)
		}
	}
	if e := s.end(); e.LastMessage != "done" || e.TurnUsage.Total != 2*few {
		t.Errorf("the turn ended with %+v", e)
	}
}

// Arguments that nobody can read are answered, and the turn goes on.
func TestUnreadableArguments(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(call("exec_command", "{bad")),
		reply(text("done")))
	s.turn("one")
	s.sees(
		"D X U1",
		"D X U1 C1 O1")
	q := s.requests()[1]
	if got := q.output(1); !strings.HasPrefix(got, "failed to parse function arguments: ") {
		t.Errorf("the model is told %q", got)
	}
	if it := itemOf(q.Input[3]); it.ID != "fc_1_0" {
		t.Errorf("the call goes back with the id %q, want the service's", it.ID)
	}
}

// A model that says that it is not done is asked to go on.
func TestUnfinishedAnswer(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(text("one")).unfinished(),
		reply(text("two")).sparing())
	s.turn("go")
	s.sees("D X U1", "D X U1 A1")
	if e := s.end(); e.LastMessage != "two" {
		t.Errorf("the turn ended with %+v", e)
	}
}
