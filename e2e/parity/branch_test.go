package parity_test

import (
	"fmt"
	"strings"
	"testing"
)

// rollback takes back the last turns.
func (s *scenario) rollback(turns int) {
	s.t.Helper()
	s.OK("threads", "rollback", s.thread, fmt.Sprint(turns))
}

// revert takes back a turn, by its number, and all behind it.
func (s *scenario) revert(before int) {
	s.t.Helper()
	s.OK("threads", "revert", s.thread, "--before", fmt.Sprint(before))
}

// fork goes on with a thread that begins as the scenario's.
func (s *scenario) fork(flags ...string) {
	s.t.Helper()
	s.forked = s.thread
	s.thread = strings.TrimSpace(s.OK(append([]string{"threads", "fork", s.thread}, flags...)...).Stdout)
}

// takenBack is why a request does not go on where the one before ended.
const takenBack = "turns were taken back"

// says are answers A1, A2 and so on.
func says(n int) []answer {
	var out []answer
	for i := range n {
		out = append(out, reply(text(fmt.Sprint("answer ", i+1))))
	}
	return out
}

// A thread goes on from before the turn that is taken back, with what it had used by then.
func TestRevert(t *testing.T) {
	t.Parallel()
	s := start(t, says(4)...)
	s.turn("one")
	s.turn("two")
	s.turn("three")
	s.revert(2)
	s.turn("four")
	s.rewritten[4] = takenBack
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U2 A2 U3",
		"D X U1 A1 U4")
	if e := s.end(); e.Usage.Total != 2*few {
		t.Errorf("the thread has used %d tokens, want those of the turns that count", e.Usage.Total)
	}
}

// What is taken back stays taken back when more is.
func TestRollbacks(t *testing.T) {
	t.Parallel()
	s := start(t, says(6)...)
	s.turn("one")
	s.turn("two")
	s.rollback(1)
	s.turn("three")
	s.turn("four")
	s.rollback(2)
	s.turn("five")
	s.rollback(99)
	s.turn("six")
	for _, n := range []int{3, 5, 6} {
		s.rewritten[n] = takenBack
	}
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U3",
		"D X U1 A1 U3 A2 U4",
		"D X U1 A1 U5",
		"D X U6")
}

// What a turn that is taken back had told of the surroundings goes with it, and is told again.
func TestRollbackOfSurroundings(t *testing.T) {
	t.Parallel()
	s := start(t, says(3)...)
	s.turn("one")
	s.Write("AGENTS.md", "Be brief.\n")
	s.turn("two")
	s.rollback(1)
	s.turn("three")
	s.rewritten[3] = takenBack
	s.sees(
		"D X U1",
		"D X U1 A1 X U2",
		"D X U1 A1 X U3")
}

// Turns behind an account that the user wanted: it stays as long as it is not older than what is taken back.
func TestRollbackBehindAnAccount(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("A"+long)), reply(text("SUMMARY")), reply(text("B")), reply(text("C")), reply(text("D")))
	s.turn("one")
	s.compact()
	s.turn("two")
	s.rollback(1)
	s.turn("three")
	s.rollback(2)
	s.turn("four")
	s.rewritten[4], s.rewritten[5] = takenBack, takenBack
	s.sees(
		"D X U1",
		"D X U1 A1 P",
		"D X U1 S1 U2",
		"D X U1 S1 U3",
		"D X U4")
}

// A turn in whose middle an account was written is taken back with it.
func TestRollbackOverAnAccount(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("A")), work(), reply(text("SUMMARY")), reply(text("B")), reply(text("C")))
	s.turn("one")
	s.turn("two")
	s.rollback(1)
	s.turn("three")
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U2 C1 O1 P",
		"U1 D X U2 S1",
		"D X U1 A1 U3")
}

// A fork begins with the bytes of the thread, which does not notice.
func TestFork(t *testing.T) {
	t.Parallel()
	s := start(t, says(5)...)
	s.turn("one")
	s.turn("two")
	thread := s.thread
	s.fork()
	s.turn("three")
	s.thread = thread
	s.fork("--through", "1")
	s.turn("four")
	s.thread = thread
	s.turn("five")
	s.rewritten[4], s.rewritten[5] = "the fork ends behind the first turn", "the thread has nothing of its forks"
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U2 A2 U3",
		"D X U1 A1 U4",
		"D X U1 A1 U2 A2 U5")
}

// In the fork of a thread whose turn runs, the turn was interrupted.
func TestForkOfARunningTurn(t *testing.T) {
	t.Parallel()
	s := start(t, reply(gate("gate")), reply(text("done")), reply(text("done")))
	run := s.begin("one")
	s.reached("gate")
	thread := s.thread
	s.fork()
	s.turn("two")
	s.thread = thread
	s.Write("gate", "")
	s.ended(run, "completed", "")
	s.rewritten[3] = "the thread has nothing of its fork"
	s.sees(
		"D X U1",
		"D X U1 C1 O1 T U2",
		"D X U1 C1 O1")
	if got := s.requests()[2].output(1); !strings.Contains(got, "through gate") {
		t.Errorf("the thread's own call gave %q", got)
	}
}
