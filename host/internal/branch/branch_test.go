package branch_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A log is written down in words. Each is what a turn records: D is what the host tells the model, X its surroundings, U what a
// user says, A an answer, C a call, O its output, and K[...] a compaction that leaves what is in the brackets. "turn:" begins a
// turn and ends the one before, "cut:" begins one, too, while the one before never ends; "model:NAME" changes the model.
type teller struct {
	t     *testing.T
	s     *store.Store
	id    event.ThreadID
	turn  event.TurnID
	seq   uint64
	turns int
	used  event.Tokens
	model event.Selection
}

func newTeller(t *testing.T, s *store.Store) *teller {
	w := &teller{t: t, s: s, id: event.NewThreadID(), model: event.Selection{Model: "first"}}
	w.tell(event.ThreadStarted{Cwd: "/", Model: "first", Source: "exec"})
	return w
}

func (w *teller) tell(bodies ...event.Body) {
	w.t.Helper()
	var evs []event.Event
	for _, b := range bodies {
		w.seq++
		evs = append(evs, event.Event{Seq: w.seq, Thread: w.id, Turn: w.turn, Time: time.Now().UTC(), Body: b})
	}
	if err := w.s.Append(w.t.Context(), evs...); err != nil {
		w.t.Fatal(err)
	}
}

// refresh goes on behind what others have written.
func (w *teller) refresh() {
	w.t.Helper()
	info, err := w.s.Thread(w.t.Context(), string(w.id))
	if err != nil {
		w.t.Fatal(err)
	}
	w.seq = info.Seq
	state, err := branch.Resume(w.t.Context(), w.s, w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.used, w.model = state.Usage, state.Model
}

func (w *teller) end() {
	if w.turn != "" {
		w.tell(event.TurnEnded{Status: event.TurnCompleted, Usage: w.used})
		w.turn = ""
	}
}

func message(word string) llm.Message {
	m := llm.Message{Role: llm.RoleUser}
	switch word[0] {
	case 'D':
		m.Role = llm.RoleSystem
	case 'A':
		m.Role = llm.RoleAssistant
	case 'X':
		m.Parts = []llm.Part{&llm.Text{Text: "<environment_context>" + word + "</environment_context>"}}
		return m
	case 'S':
		m.Parts = []llm.Part{&llm.Text{Text: "<context_summary>" + word + "</context_summary>"}}
		return m
	case 'C':
		return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: word, Name: "t", Input: "{}"}}}
	case 'O':
		return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "C" + word[1:], Name: "t"}}}
	}
	m.Parts = []llm.Part{&llm.Text{Text: word}}
	return m
}

func (w *teller) log(text string) {
	w.t.Helper()
	for word := range strings.FieldsSeq(text) {
		switch head, rest, _ := strings.Cut(word, ":"); {
		case head == "turn" || head == "cut":
			if head == "turn" {
				w.end()
			}
			w.turns++
			w.turn = event.TurnID(fmt.Sprintf("turn-%d", w.turns))
			w.tell(event.TurnStarted{Model: w.model.Model})
		case head == "model":
			w.tell(event.ModelChanged{From: w.model, To: event.Selection{Model: rest}})
			w.model.Model = rest
		case word[0] == 'K':
			item := event.Item{ID: event.NewItemID(), Type: event.ItemCompaction, Status: event.StatusInProgress}
			w.tell(event.ItemStarted{Item: item})
			item.Status = event.StatusCompleted
			var left []llm.Message
			told := false
			for inner := range strings.SplitSeq(strings.Trim(word[1:], "[]"), ",") {
				left = append(left, message(inner))
				told = told || inner[0] == 'X'
			}
			bodies := []event.Body{event.HistoryCompacted{Item: item.ID, Messages: left, After: 7, Thread: event.Checkpoint{
				Started: event.ThreadStarted{Cwd: "/", Model: "first", Source: "exec"}, Model: w.model, Usage: w.used,
			}}}
			if told {
				bodies = append(bodies, event.ContextUpdated{Reference: event.Reference{Sections: map[string]string{"env": "K"}}})
			}
			w.tell(append(bodies, event.ItemCompleted{Item: item})...)
		case word[0] == 'D':
			w.tell(event.HistoryAdded{Messages: []llm.Message{message(word)}})
		case word[0] == 'X':
			w.tell(event.HistoryAdded{Messages: []llm.Message{message(word)}}, event.ContextUpdated{Reference: event.Reference{Sections: map[string]string{"env": word}}})
		case word[0] == 'U':
			w.tell(event.HistoryAdded{Messages: []llm.Message{message(word)}},
				event.ItemCompleted{Item: event.Item{ID: event.NewItemID(), Type: event.ItemUserMessage, Text: word, Status: event.StatusCompleted}})
		case word[0] == 'A' || word[0] == 'C':
			in, out := int64(100), int64(10)
			w.used = w.used.Add(event.Tokens{Input: in, Output: out, Total: in + out})
			w.tell(event.HistoryAdded{Messages: []llm.Message{message(word)}}, event.UsageReported{Usage: llm.Usage{Input: &in, Output: &out}, Total: w.used, Active: 1})
			if word[0] == 'C' {
				w.tell(event.CallStarted{Call: event.CallID(word), Attempt: 1})
			}
		case word[0] == 'O':
			w.tell(event.CallEnded{Call: event.CallID("C" + word[1:]), Outcome: event.OutcomeOK}, event.HistoryAdded{Messages: []llm.Message{message(word)}})
		default:
			w.t.Fatalf("what is %q?", word)
		}
	}
	w.end()
}

// words writes messages as they are written in a log.
func words(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				text := p.Text
				for _, tag := range []string{"environment_context", "context_summary"} {
					text = strings.TrimSuffix(strings.TrimPrefix(text, "<"+tag+">"), "</"+tag+">")
				}
				if strings.HasPrefix(text, "<thread_forked>") {
					text = "F"
				}
				if strings.HasPrefix(text, "<turn_aborted>") {
					text = "M"
				}
				out = append(out, text)
			case *llm.ToolCall:
				out = append(out, p.ID)
			case *llm.ToolResult:
				out = append(out, "O"+p.ID[1:])
			}
		}
	}
	return strings.Join(out, " ")
}

// run tells a story: logs, and between them commands in parentheses, (rollback N) and (revert TURN).
func (w *teller) run(story string) (err error) {
	w.t.Helper()
	for story != "" {
		log, rest, _ := strings.Cut(story, "(")
		w.log(log)
		var command string
		command, story, _ = strings.Cut(rest, ")")
		if command == "" {
			continue
		}
		what, arg, _ := strings.Cut(command, " ")
		_, err = branch.Revert(w.t.Context(), w.s, w.id, func(ctx context.Context) (thread.Cut, error) {
			if what == "revert" {
				return branch.Before(ctx, w.s, w.id, arg)
			}
			n, _ := strconv.Atoi(arg)
			return branch.Last(ctx, w.s, w.id, n)
		})
		if err != nil {
			return err
		}
		w.refresh()
	}
	return nil
}

func TestRevert(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, story string
		left        string
		told        string // the surroundings that the model knows of; empty: it is told all of them again
		answers     int64  // that count
		turns       int
	}{
		{"the last of two", "turn: D X U1 A1 turn: U2 A2 (rollback 1)", "D X U1 A1", "X", 1, 1},
		{"with what was told for it", "turn: D X U1 A1 turn: D' X' U2 A2 (rollback 1)", "D X U1 A1", "X", 1, 1},
		{"more than there are", "turn: D X U1 A1 (rollback 99)", "D X", "X", 0, 0},
		{"all of several", "turn: D X U1 A1 turn: U2 A2 turn: X' U3 A3 (rollback 3)", "D X", "X", 0, 0},
		{"and on", "turn: D X U1 A1 turn: U2 A2 (rollback 1) turn: U3 A3", "D X U1 A1 U3 A3", "X", 2, 2},
		{"twice", "turn: D X U1 A1 turn: U2 A2 (rollback 1) turn: U3 A3 turn: U4 A4 (rollback 2)", "D X U1 A1", "X", 1, 1},
		{"twice at one place", "turn: D X U1 A1 turn: U2 A2 (rollback 1) turn: U3 A3 (rollback 1) turn: U4 A4", "D X U1 A1 U4 A4", "X", 2, 2},
		{"all, twice", "turn: D X U1 A1 (rollback 1) turn: U2 A2 (rollback 1) turn: U3 A3", "D X U3 A3", "X", 1, 1},
		{"all, where nothing was told", "turn: U1 A1 (rollback 1) turn: D X U2 A2", "D X U2 A2", "X", 1, 1},
		{"behind a compaction", "turn: D X U1 A1 turn: K[D2,X2,U1,S] turn: U2 A2 (rollback 1)", "D2 X2 U1 S", "K", 1, 2},
		{"over a compaction", "turn: D X U1 A1 turn: K[D2,X2,U1,S] turn: U2 A2 (rollback 2)", "D X", "X", 0, 0},
		{"over one in the middle of a turn", "turn: D X U1 A1 turn: U2 C3 O3 K[U1,D2,X2,U2,S] A4 (rollback 1)", "D X U1 A1", "X", 1, 1},
		{"over one before a turn", "turn: D X U1 A1 turn: K[D2,X2,U1,S] U2 A2 turn: U3 A3 (rollback 2)", "D X U1 A1", "X", 1, 1},
		{"behind one of two", "turn: D X U1 A1 turn: K[D2,X2,U1,S] turn: U2 A2 turn: K[U1,D3,X3,U2,S2] turn: U3 A3 (rollback 2) turn: U4 A4", "D2 X2 U1 S U4 A4", "K", 2, 3},
		{"a compaction that counts not as a turn", "turn: D X U1 A1 turn: U2 A2 turn: K[U1,D2,X2,U2,S] (rollback 1)", "D X U1 A1", "X", 1, 1},
		{"before a turn in the middle", "turn: D X U1 A1 turn: U2 A2 turn: U3 A3 (revert 2) turn: U4 A4", "D X U1 A1 U4 A4", "X", 2, 2},
		{"before a compaction", "turn: D X U1 A1 turn: K[D2,X2,U1,S] turn: U2 A2 (revert turn-2) turn: U3 A3", "D X U1 A1 U3 A3", "X", 2, 2},
		{"before the first one", "turn: D X U1 A1 turn: U2 A2 (revert 1) turn: U3 A3", "D X U3 A3", "X", 1, 1},
		{"by numbers of what counts", "turn: D X U1 A1 turn: U2 A2 turn: U3 A3 (revert 2) turn: U4 A4 turn: U5 A5 (revert 3)", "D X U1 A1 U4 A4", "X", 2, 2},
		{"a steered turn is one", "turn: D X U1 A1 turn: U2 A2 U3 A3 (rollback 1)", "D X U1 A1", "X", 1, 1},
		{"one that never ended", "turn: D X U1 A1 cut: U2 C3 (rollback 1) turn: U3 A3", "D X U1 A1 U3 A3", "X", 2, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newTeller(t, storetest.Open(t))
			if err := w.run(test.story); err != nil {
				t.Fatal(err)
			}
			s, err := branch.Resume(t.Context(), w.s, w.id)
			if err != nil {
				t.Fatal(err)
			}
			if got := words(s.Messages); got != test.left {
				t.Errorf("left: %s, want %s", got, test.left)
			}
			told := ""
			if s.ContextState != nil {
				told = s.ContextState.Sections["env"]
			}
			if told != test.told {
				t.Errorf("told: %q, want %q", told, test.told)
			}
			if s.Usage.Total != 110*test.answers {
				t.Errorf("usage %+v, want that of %d answers", s.Usage, test.answers)
			}
			info, err := w.s.Thread(t.Context(), string(w.id))
			if err != nil || info.Turns != test.turns || info.Tokens.Total != s.Usage.Total {
				t.Errorf("listed as %+v, %v", info, err)
			}
			// Nobody has to know that something was taken back: what counts reads like a log without it.
			if s.OpenTurn != "" || len(s.Open)+len(s.Items)+len(s.Asked) > 0 {
				t.Errorf("something is open: %+v", s)
			}
		})
	}
}

func TestRevertRestoresTheModel(t *testing.T) {
	t.Parallel()
	w := newTeller(t, storetest.Open(t))
	if err := w.run("turn: D X U1 A1 turn: model:second U2 A2 turn: U3 A3 (rollback 1)"); err != nil || w.model.Model != "second" {
		t.Errorf("%+v, %v", w.model, err)
	}
	if err := w.run("(rollback 1)"); err != nil || w.model.Model != "first" {
		t.Errorf("%+v, %v", w.model, err)
	}
	if info, _ := w.s.Thread(t.Context(), string(w.id)); info.Model != "first" {
		t.Errorf("listed with %q", info.Model)
	}
}

// What is true of the thread as it is stays: its name, and what runs on.
func TestRevertKeepsWhatTurnsDoNotOwn(t *testing.T) {
	t.Parallel()
	w := newTeller(t, storetest.Open(t))
	w.log("turn: D X U1 A1")
	w.tell(event.SessionOpened{Session: "1"})
	w.log("turn: U2 A2")
	w.tell(event.SessionExited{Session: "1"}, event.SessionOpened{Session: "2"}, event.ThreadNamed{Name: "n"})
	if err := w.run("(rollback 1)"); err != nil {
		t.Fatal(err)
	}
	s, err := branch.Resume(t.Context(), w.s, w.id)
	if err != nil || s.Name != "n" || len(s.Opened) != 1 || s.Opened[0].Session != "2" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestRevertIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for story, want := range map[string]string{
		"(rollback 1)":                                    "no turn to revert",
		"turn: U1 A1 (rollback 0)":                        "invalid number of turns: 0",
		"turn: U1 A1 (rollback -1)":                       "invalid number of turns: -1",
		"turn: U1 A1 (revert 2)":                          "has no turn number 2",
		"turn: U1 A1 (revert 0)":                          "turn not found",
		"turn: U1 A1 (revert nope)":                       "turn not found: nope",
		"turn: U1 A1 (revert  )":                          "no turn specified",
		"turn: U1 turn: U2 (revert t)":                    "matches several turns",
		"turn: U1 turn: U2 (rollback 1) (revert turn-2)":  "has already been reverted",
		"turn: U1 (rollback 1) (rollback 1)":              "no turn to revert",
		"turn: K[D,X,S] (rollback 1)":                     "no turn to revert",
		"turn: U1 turn: U2 turn: U3 (revert 2)(revert 2)": "has no turn number 2",
	} {
		w := newTeller(t, s)
		if err := w.run(story); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", story, err, want)
		}
	}
	w := newTeller(t, s)
	w.log("turn: U1 A1")
	lock, err := s.LockThread(t.Context(), w.id)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := w.run("(rollback 1)"); !errors.As(err, new(*store.LockedError)) {
		t.Errorf("of a thread that runs: %v", err)
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	const story = "turn: D X U1 A1 turn: K[D2,X2,U1,S] turn: U2 A2 turn: U3 A3 (rollback 1) turn: X4 U4 A4"
	for _, test := range []struct {
		at   branch.Point
		left string
		more string // what a rollback of one turn leaves of it
	}{
		{branch.Point{}, "D2 X2 U1 S U2 A2 X4 U4 A4", "D2 X2 U1 S U2 A2"},
		{branch.Point{Through: "1"}, "D X U1 A1", "D X"},
		{branch.Point{Through: "turn-2"}, "D2 X2 U1 S", "D X"},
		{branch.Point{Before: "2"}, "D X U1 A1", "D X"},
		{branch.Point{Before: "turn-1"}, "", "error"},
		{branch.Point{Through: "3"}, "D2 X2 U1 S U2 A2", "D2 X2 U1 S"},
		{branch.Point{Through: "turn-4"}, "D2 X2 U1 S U2 A2 U3 A3", "D2 X2 U1 S U2 A2"}, // it was taken back
		{branch.Point{Before: "turn-4"}, "D2 X2 U1 S U2 A2", "D2 X2 U1 S"},
		{branch.Point{Before: "turn-5"}, "D2 X2 U1 S U2 A2", "D2 X2 U1 S"},
	} {
		t.Run(fmt.Sprintf("%+v", test.at), func(t *testing.T) {
			t.Parallel()
			w := newTeller(t, storetest.Open(t))
			if err := w.run(story); err != nil {
				t.Fatal(err)
			}
			if err := branch.AppendEvent(t.Context(), w.s, w.id, event.ThreadNamed{Name: "n"}); err != nil {
				t.Fatal(err)
			}
			id, err := branch.Fork(t.Context(), w.s, w.s, w.id, test.at, "")
			if err != nil {
				t.Fatal(err)
			}
			s, err := branch.Resume(t.Context(), w.s, id)
			if err != nil || words(s.Messages) != test.left || s.Start.ForkedFrom != w.id {
				t.Errorf("left: %s, want %s; %v", words(s.Messages), test.left, err)
			}
			info, err := w.s.Thread(t.Context(), string(id))
			if err != nil || info.ForkedFrom != w.id || info.Tokens.Total != s.Usage.Total || (info.Name == "n") != (test.at == branch.Point{}) ||
				info.Preview != map[bool]string{true: "U1"}[test.left != ""] {
				t.Errorf("listed as %+v, %v", info, err)
			}
			// What a fork was given it can lose again, and the source knows nothing of it.
			fork := &teller{t: t, s: w.s, id: id}
			err = fork.run("(rollback 1)")
			s, _ = branch.Resume(t.Context(), w.s, id)
			if left := words(s.Messages); (err != nil) != (test.more == "error") || err == nil && left != test.more {
				t.Errorf("after a rollback: %s, %v, want %s", left, err, test.more)
			}
			if s, _ := branch.Resume(t.Context(), w.s, w.id); words(s.Messages) != "D2 X2 U1 S U2 A2 X4 U4 A4" {
				t.Errorf("the source has %s", words(s.Messages))
			}
			// A fork of a fork remembers the one that it was made from.
			again, err := branch.Fork(t.Context(), w.s, w.s, id, branch.Point{}, "other")
			if info, _ := w.s.Thread(t.Context(), string(again)); err != nil || info.ForkedFrom != id || info.Name != "other" {
				t.Errorf("fork of the fork: %+v, %v", info, err)
			}
		})
	}
}

// A fork of a thread in the middle of a turn sees that turn as interrupted, and its calls as running elsewhere.
func TestForkInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	w := newTeller(t, storetest.Open(t))
	w.log("turn: D X U1 A1")
	w.turns, w.turn = 2, "turn-2"
	w.tell(event.TurnStarted{})
	w.tell(event.HistoryAdded{Messages: []llm.Message{message("U2"), message("C3"), message("C4")}},
		event.ItemCompleted{Item: event.Item{ID: "u", Type: event.ItemUserMessage, Text: "U2"}},
		event.ItemStarted{Item: event.Item{ID: "i", Type: event.ItemCommand, Status: event.StatusInProgress}},
		event.CallStarted{Call: "C3", Attempt: 1}, event.SessionOpened{Session: "s"}, event.QuestionAsked{ID: "q"})
	id, err := branch.Fork(t.Context(), w.s, w.s, w.id, branch.Point{}, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := branch.Resume(t.Context(), w.s, id)
	if err != nil || words(s.Messages) != "D X U1 A1 U2 C3 C4 O3 O4 F M" {
		t.Errorf("left: %s, %v", words(s.Messages), err)
	}
	if s.OpenTurn != "" || len(s.Opened)+len(s.Items)+len(s.Asked)+len(s.Open) > 0 {
		t.Errorf("something is open in the fork: %+v", s)
	}
	text := llm.Message{Parts: s.Messages[7].Parts[0].(*llm.ToolResult).Content}.Text()
	if !strings.HasPrefix(text, "outcome unknown") || strings.Contains(text, "host stopped") {
		t.Errorf("output of the call that runs: %s", text)
	}
	turns, err := w.s.Turns(t.Context(), id)
	if err != nil || len(turns) != 2 || turns[1].Status != "interrupted" || turns[1].LastSeq == 0 {
		t.Errorf("turns %+v, %v", turns, err)
	}
	if _, err := branch.Fork(t.Context(), w.s, w.s, w.id, branch.Point{Through: "2"}, ""); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("behind a turn that runs: %v", err)
	}
	if _, err := branch.Fork(t.Context(), w.s, w.s, w.id, branch.Point{Before: "2"}, ""); err != nil {
		t.Errorf("before a turn that runs: %v", err)
	}
}

func TestForkIsRefused(t *testing.T) {
	t.Parallel()
	w := newTeller(t, storetest.Open(t))
	w.log("turn: D X U1 A1")
	for at, want := range map[branch.Point]string{
		{Before: "1", Through: "1"}: "not both", {Before: "7"}: "turn not found", {Through: "nope"}: "turn not found",
	} {
		if _, err := branch.Fork(t.Context(), w.s, w.s, w.id, at, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", at, err, want)
		}
	}
	if _, err := branch.Fork(t.Context(), w.s, w.s, "nope", branch.Point{}, ""); !errors.As(err, new(*store.NotFoundError)) {
		t.Errorf("a thread that is not there: %v", err)
	}
	if err := branch.AppendEvent(t.Context(), w.s, w.id, event.ThreadArchived{Archived: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := branch.Fork(t.Context(), w.s, w.s, w.id, branch.Point{}, ""); !errors.As(err, new(*branch.ArchivedError)) {
		t.Errorf("an archived thread: %v", err)
	}
}

func TestName(t *testing.T) {
	for name, want := range map[string]string{" a b ": "a b", "": "", "\t": "", "a\nb": "", "a\x1bb": "", "\xff": "", strings.Repeat("é", 200): strings.Repeat("é", 200), strings.Repeat("é", 201): ""} {
		if got, err := branch.Name(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
