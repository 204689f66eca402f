package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/contract"
	"golang.org/x/term"
)

// asks answers a thread's questions from the terminal, one at a time in the order asked: an answer never belongs to a
// question that is not on the screen. Without a terminal nobody attends, so questions are refused at once instead of
// waiting for ever.
type asks struct {
	app     *app
	thread  *thread.Thread
	attends bool
	leave   func()
	done    chan struct{}
	clerk   sync.WaitGroup
	lines   func() <-chan string // closed at the end of the input

	mu struct {
		sync.Mutex
		waiting []*question // the first one is on the screen
	}
}

type question struct {
	event.QuestionAsked
	over chan struct{} // closed when somebody else answered, or nobody needs to any more
	late bool          // it waited for another one, so its title has scrolled away
}

func (a *app) attend(t *thread.Thread, f execFlags) *asks {
	s := &asks{app: a, thread: t, leave: func() {}, done: make(chan struct{})}
	if a.stdin == nil || f.json || f.events || !term.IsTerminal(int(a.stdin.Fd())) {
		return s
	}
	s.attends = true
	s.leave = t.Desk().Attend()
	s.lines = sync.OnceValue(s.read)
	return s
}

// close takes what is on the screen for unanswered and waits for the clerk.
func (s *asks) close() {
	s.leave()
	close(s.done)
	s.clerk.Wait()
}

// read starts the reader of the terminal, which can't be interrupted.
func (s *asks) read() <-chan string {
	lines := make(chan string)
	go func() { // owned by the terminal: ends with the input, with close, or with the process
		defer close(lines)
		in := bufio.NewReader(s.app.stdin)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case lines <- strings.TrimSpace(line):
			case <-s.done:
				return
			}
		}
	}()
	return lines
}

// ask puts a question at the end of the queue. It does not wait for the answer.
func (s *asks) ask(q event.QuestionAsked) {
	if !s.attends {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = append(s.mu.waiting, &question{q, make(chan struct{}), len(s.mu.waiting) > 0})
	if len(s.mu.waiting) == 1 {
		s.clerk.Go(s.work)
	}
}

// resolved takes a question away that was answered, by whomever.
func (s *asks) resolved(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.waiting {
		if q.ID == id {
			close(q.over)
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
	if q.About == event.QuestionApproval {
		options = []string{approval.Approve, approval.ApproveSession, approval.Deny, approval.Abort}
	}
	text := questionText(q.QuestionAsked, options)
	if q.late {
		text = "? " + below(q.Title) + "\n" + text
	}
	fmt.Fprint(s.app.stderr, text)
	for {
		select {
		case line, more := <-s.lines():
			if !more {
				return approval.Answer{Choice: approval.Deny, By: "user"}, true
			}
			if choice, ok := choose(line, options); ok {
				return approval.Answer{Choice: choice, By: "user"}, true
			}
			fmt.Fprintf(s.app.stderr, "  answer with a number or a word of the list: ")
		case <-q.over:
			return approval.Answer{}, false
		case <-s.done:
			return approval.Answer{}, false
		}
	}
}

// questionText is what follows the title of a question, down to where the answer is typed.
func questionText(q event.QuestionAsked, options []string) string {
	var b strings.Builder
	for _, e := range q.Effects {
		fmt.Fprintf(&b, "  %s\n", below(effectText(e)))
	}
	if q.Reason != "" {
		fmt.Fprintf(&b, "  why: %s\n", below(q.Reason))
	}
	if q.Message != "" {
		fmt.Fprintf(&b, "  %s\n", below(q.Message))
	}
	for i, o := range options {
		fmt.Fprintf(&b, "  %d) %s\n", i+1, strings.ReplaceAll(clean(o), "_", " for this "))
	}
	b.WriteString("  answer: ")
	return b.String()
}

// below shows a text of others below what the host says, so that it can't pass for it.
func below(s string) string { return strings.ReplaceAll(clean(s), "\n", "\n    ") }

// effectText says what a call would do, as plainly as its kind allows.
func effectText(e event.Effect) string {
	if e.Type == "exec" {
		var x contract.ExecEffect
		if json.Unmarshal(e.Data, &x) == nil && len(x.Argv) > 0 {
			argv := make([]string, len(x.Argv))
			for i, a := range x.Argv {
				argv[i] = strconv.Quote(a)
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
		return approval.Approve, slices.Contains(options, approval.Approve)
	case "n", "no":
		return approval.Deny, slices.Contains(options, approval.Deny)
	}
	return line, len(options) == 0 && line != ""
}
