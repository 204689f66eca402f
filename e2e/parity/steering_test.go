package parity_test

import (
	"regexp"
	"slices"
	"strings"
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
	for _, c := range []struct {
		turn, text, want string
	}{
		{"other", "two", "expected active turn id `other` but found `" + first.Turn + "`"},
		{first.Turn, " ", "input must not be empty"},
		{"", "two", "the id of the turn to steer is missing"},
	} {
		if _, refused := d.ask("gantry/thread/steer", map[string]any{"expectedTurnId": c.turn, "text": c.text}); refused != c.want {
			t.Errorf("%q is refused with %q, want %q", c.text, refused, c.want)
		}
	}
	if got, refused := d.ask("gantry/thread/steer", map[string]any{"expectedTurnId": first.Turn, "text": "four"}); refused != "" || got.Turn != first.Turn {
		t.Errorf("accepted as %+v %s", got, refused)
	}
	s.Write("gate", "")
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 U2 U3 U4")
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

// What the model has begun to say when the user stops it is no answer; what it had said is one.
func TestInterruptInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHold()
	h.item, h.inside = 1, true
	s := start(t, reply(text("first words"), text("second words")).holding(h), reply(text("done")))
	run := s.begin("one")
	h.wait(t)
	run.Sees("second words")
	s.door().interrupt()
	s.ended(run, "interrupted", "")
	close(h.letGo)
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 A1 T U2")
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
	if _, refused := d.ask("gantry/thread/compact", nil); refused != "" {
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

// What is said while a thread is compacted in the middle of a turn waits until the model has gone on with what it was doing.
func TestSteeringAroundACompaction(t *testing.T) {
	t.Parallel()
	h := newHold()
	s := start(t, reply(gate("gate"), command("seq 1 3000")).counting(full), reply(text("SUMMARY")).holding(h), reply(text("done")), reply(text("done again")))
	run := s.begin("one")
	s.reached("gate")
	d := s.door()
	d.say("two")
	s.Write("gate", "")
	h.wait(t)
	d.say("three")
	close(h.letGo)
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 C1 C2 O1 O2 P",
		"D X U1 S1",
		"D X U1 S1 A1 U2 U3")
}

// A turn that the user stops while it is compacted keeps its history; the account is not waited for.
func TestInterruptOfACompaction(t *testing.T) {
	t.Parallel()
	h := newHold()
	s := start(t, work(), reply(text("SUMMARY")).holding(h), reply(text("SUMMARY")), reply(text("done")))
	run := s.begin("one")
	h.wait(t)
	s.door().interrupt()
	s.ended(run, "interrupted", "")
	close(h.letGo)
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P",
		"D X U1 C1 O1 T P",
		"D X U1 S1 U2")
}

// Calls that had ended keep their outputs, whichever was asked for first.
func TestInterruptOfSeveralCalls(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate"), command("echo second")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	run.Sees(`second\n`)
	s.door().interrupt()
	s.ended(run, "interrupted", "")
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 C1 C2 O1 O2 T U2")
	q := s.requests()[1]
	if got := q.output(1); !abortedCommand.MatchString(got) {
		t.Errorf("the model is told %q", got)
	}
	if got := q.output(2); !strings.Contains(got, "second") {
		t.Errorf("the model is told %q", got)
	}
}

// What a client says beside its user's words stands before them, in an element of its own; what is the same is not said again.
func TestContextOfAClient(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(gate("gate 2")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	d := s.door()
	beside := func(text, file string) {
		t.Helper()
		params := map[string]any{"text": text, "additionalContext": map[string]any{"file": map[string]any{"value": file, "kind": "untrusted"}}}
		if _, refused := d.ask("gantry/thread/start", params); refused != "" {
			t.Fatal(refused)
		}
	}
	beside("two", "a.go")
	beside("three", "a.go")
	s.Write("gate", "")
	s.reached("gate 2")
	beside("four", "b.go")
	s.Write("gate 2", "")
	s.ended(run, "completed", "")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 X U2 U3",
		"D X U1 C1 O1 X U2 U3 C2 O2 X U4")
	var told []string
	for _, raw := range s.requests()[2].surroundings()[1:] {
		told = append(told, textsOf(itemOf(raw).Content)...)
	}
	if want := []string{"<external_file>\na.go\n</external_file>", "<external_file>\nb.go\n</external_file>"}; !slices.Equal(told, want) {
		t.Errorf("told as %q, want %q", told, want)
	}
}
