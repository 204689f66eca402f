package parity_test

import (
	"strings"
	"testing"
)

// work is an answer that fills the window and leaves something to do; its output is worth an account.
func work() answer { return reply(command("seq 1 3000")).counting(full) }

type compacted struct{ Trigger, Reason, Phase string }

func (s *scenario) wasCompacted(want ...compacted) {
	s.t.Helper()
	got := events[compacted](s, "history.compacted")
	if len(got) != len(want) {
		s.t.Errorf("compacted as %+v, want %+v", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			s.t.Errorf("compacted as %+v, want %+v", got, want)
		}
	}
}

var (
	midTurn = compacted{"auto", "context_limit", "mid_turn"}
	preTurn = compacted{"auto", "context_limit", "pre_turn"}
	byUser  = compacted{"manual", "user_requested", "standalone_turn"}
)

// Between two requests of a turn: the account comes last, what every conversation begins with before the user's last word.
func TestCompactionInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	s := start(t, work(), reply(text("SUMMARY")), reply(text("done")))
	s.turn("one")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P",
		"D X U1 S1")
	s.wasCompacted(midTurn)
	if e := s.end(); e.TurnUsage.Total != full+2*few {
		t.Errorf("the turn used %+v, want all three answers", e.TurnUsage)
	}
	if got := s.account(3); !strings.Contains(got, "SUMMARY") {
		t.Errorf("the account: %q", got)
	}
}

// account is the account at the end of request n.
func (s *scenario) account(n int) string {
	q := s.requests()[n-1]
	return strings.Join(textsOf(itemOf(q.Input[len(q.Input)-1]).Content), "\n")
}

// An empty account is asked for once more; then a sentence says that it is missing. What the model said before is none.
func TestEmptyAccount(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("working"), command("seq 1 3000")).counting(full), reply(), reply(), reply(text("done")))
	s.turn("one")
	s.sees(
		"D X U1",
		"D X U1 A1 C1 O1 P",
		"D X U1 A1 C1 O1 P",
		"D X U1 S1")
	if got := s.account(4); strings.Contains(got, "working") || !strings.Contains(got, "There is no account") {
		t.Errorf("the account: %q", got)
	}
}

// What was said of an account that was cut off is no part of it, nor of the conversation.
func TestAccountIsCut(t *testing.T) {
	t.Parallel()
	s := start(t, work(), reply(text("halfsum")).cutOff(), reply(text("SUMMARY")), reply(text("done")))
	s.turn("one")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P",
		"D X U1 C1 O1 P",
		"D X U1 S1")
	if got := s.account(4); strings.Contains(got, "halfsum") || !strings.Contains(got, "SUMMARY") {
		t.Errorf("the account: %q", got)
	}
	if got := events[retried](s, "stream.retried"); len(got) != 1 {
		t.Errorf("notices of a retry: %+v", got)
	}
}

// A question that is too long loses the oldest item.
func TestQuestionIsTooLong(t *testing.T) {
	t.Parallel()
	s := start(t, work(), failing("context_length_exceeded"), reply(text("SUMMARY")), reply(text("done")))
	s.turn("one")
	s.rewritten[3] = "the oldest item is left out"
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P",
		"X U1 C1 O1 P",
		"D X U1 S1")
}

// One after the other, a call with its output, until only the question is left; then the turn ends.
func TestQuestionIsAlwaysTooLong(t *testing.T) {
	t.Parallel()
	long := failing("context_length_exceeded")
	s := start(t, work(), long, long, long, long, long)
	s.fails("one", "context")
	for n := range 4 {
		s.rewritten[3+n] = "the oldest item is left out"
	}
	s.rewritten[6] = "only the question is left"
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P",
		"X U1 C1 O1 P",
		"U1 C1 O1 P",
		"C1 O1 P",
		"P")
}

// A question that is refused for another reason ends the turn at once, with the service's words.
func TestQuestionIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, work(), refusing(400, "invalid_prompt", "This prompt is wrong."))
	s.fails("one", "This prompt is wrong.")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P")
}

// Who refuses a request for its length in the middle of a turn is asked for an account, and the turn goes on.
func TestOverflowInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	s := start(t, reply(command("seq 1 1000")), failing("context_length_exceeded"), reply(text("SUMMARY")), reply(text("done")), reply(text("on")))
	s.turn("one")
	s.wasCompacted(midTurn)
	s.turn("two")
	s.sees(
		"D X U1",
		"D X U1 C1 O1",
		"D X U1 C1 O1 P",
		"D X U1 S1",
		"D X U1 S1 A1 U2")
}

// An answer that fills the window and ends the turn costs nothing yet: the next turn makes room first, and the account does
// not know of its task.
func TestCompactionBeforeATurn(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("one"+long)).counting(full), reply(text("SUMMARY")), reply(text("done")))
	s.turn("one")
	s.wasCompacted()
	s.turn("two")
	s.wasCompacted(preTurn)
	s.sees(
		"D X U1",
		"D X U1 A1 P",
		"D X U1 S1 U2")
}

// What a turn begins with counts, too.
func TestTaskThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("one"+long)).counting(atTokens-100), reply(text("SUMMARY")), reply(text("done")))
	s.turn("one")
	s.turn("two" + long)
	s.sees(
		"D X U1",
		"D X U1 A1 P",
		"D X U1 S1 U2")
}

// When the user wants it: the context stands before the last of the user's words, and there is one account, however often a
// thread was compacted.
func TestCompactionByTheUser(t *testing.T) {
	t.Parallel()
	s := start(t,
		reply(text("A"+long)), reply(text("B")), reply(text("SUMMARY")),
		reply(text("C"+long)), reply(text("SUMMARY 2")),
		reply(text("D")))
	s.turn("one")
	s.turn("two")
	s.compact()
	s.wasCompacted(byUser)
	s.turn("three")
	s.compact()
	s.turn("four")
	s.sees(
		"D X U1",
		"D X U1 A1 U2",
		"D X U1 A1 U2 A2 P",
		"U1 D X U2 S1 U3",
		"U1 D X U2 S1 U3 A3 P",
		"U1 U2 D X U3 S2 U4")
}

// A compaction before a turn that fails ends the turn before it asks its question. The user's words are not lost.
func TestCompactionBeforeATurnFails(t *testing.T) {
	t.Parallel()
	s := start(t, reply(text("one"+long)).counting(full), refusing(400, "invalid_prompt", "This prompt is wrong."), reply(text("SUMMARY")), reply(text("done")))
	s.turn("one")
	s.fails("two", "This prompt is wrong.")
	s.turn("three")
	s.sees(
		"D X U1",
		"D X U1 A1 P",
		"D X U1 A1 U2 P",
		"U1 D X U2 S1 U3")
}

// An account is asked for in plain words, also where the turn's answer has to follow a schema.
func TestCompactionOfATurnWithASchema(t *testing.T) {
	t.Parallel()
	s := start(t, work(), reply(text("SUMMARY")), reply(text(`{"n": 1}`)))
	s.Write("schema.json", `{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}`)
	s.turn("one", "--output-schema", "schema.json")
	s.sees(
		"D X U1",
		"D X U1 C1 O1 P",
		"D X U1 S1")
	var formats []string
	for _, q := range s.requests() {
		formats = append(formats, q.Text.Format.Type)
	}
	if got := strings.Join(formats, ","); got != "json_schema,,json_schema" {
		t.Errorf("formats of the answers: %s", got)
	}
}
