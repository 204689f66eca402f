package run

import (
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// asks answers a thread's questions on the terminal, one at a time in order. An answer always belongs to the question on the
// screen; input typed before it appeared is discarded. Without a terminal, questions are denied at once rather than left open, and
// piped input is never an answer.
type asks struct {
	app     *app
	thread  *thread.Thread
	screen  *render.Screen
	attends bool
	leave   func()
	done    chan struct{}
	clerk   sync.WaitGroup
	typed   console.LineReader // used only by the prompter

	mu struct {
		sync.Mutex
		waiting []*question // the first one is on the screen
	}
	changes map[event.CallID][]event.FileChange // of running calls; used only by the caller of ask
}

// started records the changes that a call would make, for its question.
func (s *asks) started(it event.Item) {
	if s.attends && len(it.Changes) > 0 {
		if s.changes == nil {
			s.changes = map[event.CallID][]event.FileChange{}
		}
		s.changes[it.Call] = it.Changes
	}
}

// completed forgets the changes of a call.
func (s *asks) completed(it event.Item) { delete(s.changes, it.Call) }

type question struct {
	event.QuestionAsked
	changes []event.FileChange          // the changes that the call would make
	over    chan event.QuestionResolved // capacity 1: the question was answered elsewhere or withdrawn
}

func (a *app) attend(t *thread.Thread, f execFlags) *asks {
	s := &asks{app: a, thread: t, screen: &render.Screen{Out: a.Stderr}, leave: func() {}, done: make(chan struct{})}
	if f.json || f.events || !a.Terminal() {
		return s
	}
	s.attends = true
	s.leave = t.Approvals().Attend()
	s.typed = console.LineReader{Terminal: a.Stdin, Done: s.done}
	return s
}

// close treats the question on the screen as unanswered and waits for the prompter.
func (s *asks) close() {
	s.leave()
	close(s.done)
	s.clerk.Wait()
}

// ask appends a question to the queue. It does not wait for the answer.
func (s *asks) ask(q event.QuestionAsked) {
	if !s.attends {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = append(s.mu.waiting, &question{q, s.changes[q.Call], make(chan event.QuestionResolved, 1)})
	if len(s.mu.waiting) == 1 {
		s.clerk.Go(s.work)
	}
}

// resolved removes a question that was answered here or elsewhere.
func (s *asks) resolved(r event.QuestionResolved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.mu.waiting {
		if q.ID == r.ID {
			q.over <- r
		}
	}
}

// work shows the waiting questions one after another.
func (s *asks) work() {
	for {
		s.mu.Lock()
		q := s.mu.waiting[0]
		s.mu.Unlock()
		if answer, ok := s.put(q); ok {
			_ = s.thread.Approvals().Resolve(q.ID, answer) // another client may have answered first
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

// put shows a question and waits for a line that answers it. ok is false if an answer is no longer needed.
func (s *asks) put(q *question) (_ approval.Answer, ok bool) {
	select {
	case <-q.over:
		return approval.Answer{}, false // answered while it waited in the queue
	case <-s.done:
		return approval.Answer{}, false
	default:
	}
	options := q.Options
	if q.About == event.QuestionApproval && len(options) == 0 { // from an older host
		options = []string{approval.Approve, approval.Deny, approval.Abort}
	}
	s.screen.Ask(render.Question(q.QuestionAsked, options, q.changes))
	defer s.screen.Done()
	s.typed.Forget()
	s.screen.Say("  answer: ")
	for {
		select {
		case line, more := <-s.typed.Line():
			s.typed.Taken()
			if !more {
				s.screen.Say("\n  no more answers possible: refused\n")
				return approval.Answer{Choice: approval.Deny, By: "user"}, true
			}
			if choice, ok := render.Choose(line, options); ok {
				return approval.Answer{Choice: choice, By: "user"}, true
			}
			s.screen.Say("  type a letter or a word from the list: ")
		case r := <-q.over:
			s.screen.Say("\n  " + elsewhere(r) + "\n")
			return approval.Answer{}, false
		case <-s.done:
			s.screen.Say("\n")
			return approval.Answer{}, false
		}
	}
}

// elsewhere describes the end of a question that was not answered here.
func elsewhere(r event.QuestionResolved) string {
	if r.Answer == "" {
		return "no longer asked"
	}
	return "answered elsewhere: " + render.Clean(r.Answer)
}
