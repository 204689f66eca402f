package parity_test

import (
	"regexp"
	"testing"
)

// What is said to a running turn is part of it, in the order in which it came, behind the outputs of the calls that ran.
func TestSteering(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	d := s.door()
	first, second := d.say("two"), d.say("three")
	if !first.Steered || !second.Steered || first.Turn == "" || first.Turn != second.Turn {
		t.Errorf("accepted as %+v and %+v, want the running turn", first, second)
	}
	if _, refused := d.ask("turn/start", map[string]any{"text": " "}); refused == "" {
		t.Error("an empty input is accepted")
	}
	s.Write("gate", "")
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 U2 U3")
}

// Who is steered in the middle of an answer hears it to its end.
func TestSteeringInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHold()
	s := start(t,
		reply(thought("I think."), command("echo x"), text("running")).holding(h),
		reply(text("done")))
	run := s.begin("one")
	h.wait(t)
	s.door().say("two")
	close(h.letGo)
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 R1 C1 A1 O1 U2")
}

// A steer that comes while the last answer is spoken is answered in the same turn.
func TestSteeringAtTheEnd(t *testing.T) {
	t.Parallel()
	h := newHold()
	s := start(t, reply(text("done")).holding(h), reply(text("done again")))
	run := s.begin("one")
	h.wait(t)
	s.door().say("two")
	close(h.letGo)
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 A1 U2")
}

var abortedCommand = regexp.MustCompile(`^Wall time: \d+\.\d seconds\naborted by user$`)

// A turn that the user stops: its calls are told as stopped, and the next turn reads that it was on purpose.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	s.door().interrupt()
	s.ended(run, "interrupted", "")
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 T U2")
	if got := s.requests()[1].output(1); !abortedCommand.MatchString(got) {
		t.Errorf("the model is told %q", got)
	}
}

// What the model has begun to say when the user stops it is no answer.
func TestInterruptInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHold()
	h.inside = true
	s := start(t, reply(text("partial")).holding(h), reply(text("done")))
	run := s.begin("one")
	h.wait(t)
	s.door().interrupt()
	s.ended(run, "interrupted", "")
	close(h.letGo)
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 T U2")
}

// What was said to a turn before it is stopped is not lost.
func TestSteeringBeforeAnInterrupt(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	d := s.door()
	d.say("two")
	d.interrupt()
	s.ended(run, "interrupted", "")
	s.turn("three")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 U2 T U3")
}

// The same where the turn is replaced by a compaction, which leaves no mark.
func TestSteeringBeforeACompaction(t *testing.T) {
	t.Parallel()
	s := start(t, reply(command("seq 1 1000")), reply(gate("gate")), reply(text("SUMMARY")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	d := s.door()
	d.say("two")
	if _, refused := d.ask("thread/compact/start", nil); refused != "" {
		t.Fatal(refused)
	}
	res := run.Wait()
	if res.Code != 1 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	s.turn("three")
	s.sees(
		"D X U1",
		"D X U1 C1 O1",
		"D X U1 C1 O1 C2 O2 U2 P",
		"U1 D X U2 S1 U3")
	if got := s.requests()[2].output(2); !abortedCommand.MatchString(got) {
		t.Errorf("the model is told %q", got)
	}
}
