package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// asks answers a thread's questions from the terminal, one at a time in the order asked: an answer never belongs to a
// question that is not on the screen, nor does what was typed before it was. Without a terminal nobody attends, so questions
// are refused at once instead of waiting for ever; what is piped in is never an answer.
type asks struct {
	app     *app
	thread  *thread.Thread
	screen  *screen
	attends bool
	leave   func()
	done    chan struct{}
	clerk   sync.WaitGroup
	typed   typist // the clerk's alone

	mu struct {
		sync.Mutex
		waiting []*question // the first one is on the screen
	}
}

type question struct {
	event.QuestionAsked
	over chan event.QuestionResolved // one slot: somebody answered, or nobody needs to any more
}

func (a *app) attend(t *thread.Thread, f execFlags) *asks {
	s := &asks{app: a, thread: t, screen: &screen{out: a.stderr}, leave: func() {}, done: make(chan struct{})}
	if f.json || f.events || !a.terminal() {
		return s
	}
	s.attends = true
	s.leave = t.Desk().Attend()
	s.typed = typist{terminal: a.stdin, done: s.done}
	return s
}

// close takes what is on the screen for unanswered and waits for the clerk.
func (s *asks) close() {
	s.leave()
	close(s.done)
	s.clerk.Wait()
}

// ask puts a question at the end of the queue. It does not wait for the answer.
func (s *asks) ask(q event.QuestionAsked) {
	if !s.attends {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = append(s.mu.waiting, &question{q, make(chan event.QuestionResolved, 1)})
	if len(s.mu.waiting) == 1 {
		s.clerk.Go(s.work)
	}
}

// resolved takes a question away that was answered, by whomever.
func (s *asks) resolved(r event.QuestionResolved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.waiting {
		if q.ID == r.ID {
			q.over <- r
		}
	}
}

// work shows one question after the other until none waits.
func (s *asks) work() {
	for {
		s.mu.Lock()
		q := s.mu.waiting[0]
		s.mu.Unlock()
		if answer, ok := s.put(q); ok {
			_ = s.thread.Desk().Resolve(q.ID, answer) // somebody else may have been faster
		}
		s.mu.Lock()
		s.mu.waiting = slices.Delete(s.mu.waiting, 0, 1)
		idle := len(s.mu.waiting) == 0
		s.mu.Unlock()
		if idle {
			return
		}
	}
}

// put shows a question and waits for a line that answers it; not ok: nobody needs the answer any more.
func (s *asks) put(q *question) (_ approval.Answer, ok bool) {
	select {
	case <-q.over:
		return approval.Answer{}, false // answered while it waited
	case <-s.done:
		return approval.Answer{}, false
	default:
	}
	options := q.Options
	if q.About == event.QuestionApproval && len(options) == 0 { // of an older host
		options = []string{approval.Approve, approval.Deny, approval.Abort}
	}
	s.screen.ask(questionText(q.QuestionAsked, options))
	defer s.screen.done()
	s.typed.forget()
	s.screen.say("  answer: ")
	for {
		select {
		case line, more := <-s.typed.line():
			s.typed.taken()
			if !more {
				s.screen.say("\n  no answer can come any more: refused\n")
				return approval.Answer{Choice: approval.Deny, By: "user"}, true
			}
			if choice, ok := choose(line, options); ok {
				return approval.Answer{Choice: choice, By: "user"}, true
			}
			s.screen.say("  answer with a number or a word of the list: ")
		case r := <-q.over:
			s.screen.say("\n  " + elsewhere(r) + "\n")
			return approval.Answer{}, false
		case <-s.done:
			s.screen.say("\n")
			return approval.Answer{}, false
		}
	}
}

// elsewhere says how a question ended that was not answered here.
func elsewhere(r event.QuestionResolved) string {
	if r.Answer == "" {
		return "no longer asked"
	}
	return "answered elsewhere: " + clean(r.Answer)
}

// questionText is a question, down to where the answer is typed.
func questionText(q event.QuestionAsked, options []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "? %s\n", below(q.Title))
	for _, e := range q.Effects {
		fmt.Fprintf(&b, "  %s\n", below(effectText(e)))
	}
	for _, e := range q.Wanted {
		fmt.Fprintf(&b, "  beyond the sandbox: %s\n", below(wantedText(e)))
	}
	if q.Reason != "" {
		fmt.Fprintf(&b, "  why: %s\n", below(q.Reason))
	}
	if q.Message != "" {
		fmt.Fprintf(&b, "  %s\n", below(q.Message))
	}
	for i, o := range options {
		fmt.Fprintf(&b, "  %d) %s\n", i+1, optionText(o, q.Rule))
	}
	return b.String()
}

// optionText says what an answer means. The rule that an answer writes is shown as it is written, and where.
func optionText(option string, rule *event.RuleOffer) string {
	switch {
	case option == approval.ApproveAlways && rule != nil:
		return fmt.Sprintf("approve always: writes %s\n     to %s", below(rule.Line), below(rule.File))
	case option == approval.DenyAlways && rule != nil:
		return fmt.Sprintf("deny always: writes %s\n     to %s", below(rule.Deny), below(rule.File))
	}
	return strings.ReplaceAll(clean(option), "_", " for this ")
}

// below shows a text of others below what the host says, so that it can't pass for it.
func below(s string) string { return strings.ReplaceAll(folded(clean(s)), "\n", "\n    ") }

// maxBlanks is how many characters that show nothing, or the same one, are shown in a row: more of them push off the screen what
// comes before or behind.
const maxBlanks = 40

// folded says how many there are where a character that shows nothing, or any one, comes more often than that in a row.
func folded(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		first, end := utf8.DecodeRuneInString(s)
		n := 1
		for end < len(s) {
			r, size := utf8.DecodeRuneInString(s[end:])
			if r != first && !(blank(r) && blank(first)) {
				break
			}
			n, end = n+1, end+size
		}
		switch {
		case n <= maxBlanks:
			b.WriteString(s[:end])
		case blank(first):
			fmt.Fprintf(&b, " …%d blanks… ", n)
		default:
			fmt.Fprintf(&b, "%c…%d of them…", first, n)
		}
		s = s[end:]
	}
	return b.String()
}

// blank reports whether a character shows nothing.
func blank(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0': // letters, for Unicode
		return true
	}
	return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)
}

// effectText says what a call would do, as plainly as its kind allows.
func effectText(e event.Effect) string {
	if e.Type == "exec" {
		var x contract.ExecEffect
		if json.Unmarshal(e.Data, &x) == nil && len(x.Argv) > 0 {
			argv := make([]string, len(x.Argv))
			for i, a := range x.Argv {
				argv[i] = strconv.Quote(folded(a))
			}
			text := "runs: " + strings.Join(argv, " ")
			if x.Cwd != "" {
				text += "\nin: " + x.Cwd
			}
			return text
		}
	}
	// What encoding/json escapes for web pages is plain text here.
	data := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(e.Data))
	return e.Type + " " + data
}

// wantedText says what is asked for beyond the sandbox.
func wantedText(e event.Effect) string {
	var paths contract.WriteEffect
	quoted := func() string {
		list := make([]string, len(paths.Paths))
		for i, p := range paths.Paths {
			list[i] = strconv.Quote(p)
		}
		return strings.Join(list, ", ")
	}
	switch {
	case e.Type == "write" && json.Unmarshal(e.Data, &paths) == nil:
		return "write " + quoted() + " and all below"
	case e.Type == "read" && json.Unmarshal(e.Data, &paths) == nil:
		return "read " + quoted() + " and all below"
	case e.Type == "network" && string(e.Data) == `{"host":"*"}`:
		return "reach the network, all of it"
	}
	return effectText(e)
}

// choose finds the option that a line means.
func choose(line string, options []string) (string, bool) {
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(options) {
		return options[n-1], true
	}
	for _, o := range options {
		if strings.EqualFold(line, o) {
			return o, true
		}
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		if len(options) > 0 && options[0] == approval.ApproveTurn { // there is no smaller yes
			return approval.ApproveTurn, true
		}
		return approval.Approve, slices.Contains(options, approval.Approve)
	case "turn", "session", "always":
		option := approval.Approve + "_" + strings.ToLower(line)
		return option, slices.Contains(options, option)
	case "never":
		return approval.DenyAlways, slices.Contains(options, approval.DenyAlways)
	case "n", "no":
		return approval.Deny, slices.Contains(options, approval.Deny)
	}
	return line, len(options) == 0 && line != ""
}
