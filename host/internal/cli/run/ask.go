package run

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// asks answers a thread's questions on the terminal, one at a time in order. An answer always belongs to the question on the
// screen; input typed before it appeared is discarded, and so is the first line after a question that was answered elsewhere. Without a terminal, nobody attends: questions are denied at once rather than left
// open, and piped input is never an answer.
type asks struct {
	ctx    context.Context // of the command
	thread *hub.Thread
	screen *render.Screen
	leave  func()
	done   chan struct{}
	clerk  sync.WaitGroup
	typed  console.LineReader // used only by the prompter

	mu struct {
		sync.Mutex
		waiting []*question // the first one is on the screen
	}
	calls map[event.CallID]event.Item // that are running; used only by the caller of event
}

// event follows an event of the thread. It does not wait for an answer.
func (s *asks) event(e event.Event) {
	if s == nil {
		return
	}
	switch b := e.Body.(type) {
	case event.ItemStarted:
		if b.Item.Call != "" {
			s.calls[b.Item.Call] = b.Item
		}
	case event.ItemCompleted:
		delete(s.calls, b.Item.Call)
	case event.QuestionAsked:
		if b.About.ForPerson() {
			s.ask(b)
		}
	case event.QuestionResolved:
		s.resolved(b)
	}
}

type question struct {
	event.QuestionAsked
	call event.Item                  // that it is about
	over chan event.QuestionResolved // capacity 1: the question was answered elsewhere or withdrawn
}

// attend returns nil if there is no terminal, or its output is for programs.
func (a *app) attend(ctx context.Context, t *hub.Thread, f execFlags) (*asks, error) {
	if f.json || f.events || !a.Terminal() {
		return nil, nil
	}
	leave, err := t.Attend(ctx)
	if err != nil {
		return nil, err
	}
	s := &asks{
		ctx: ctx, thread: t, screen: &render.Screen{Out: a.Stderr}, leave: leave, done: make(chan struct{}), calls: map[event.CallID]event.Item{},
	}
	s.typed = console.LineReader{Terminal: a.Stdin, Done: s.done}
	return s, nil
}

// close treats the question on the screen as unanswered and waits for the prompter.
func (s *asks) close() {
	if s == nil {
		return
	}
	s.leave()
	close(s.done)
	s.clerk.Wait()
}

// ask appends a question to the queue.
func (s *asks) ask(q event.QuestionAsked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = append(s.mu.waiting, &question{q, s.calls[q.Call], make(chan event.QuestionResolved, 1)})
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
		s.put(q)
		s.mu.Lock()
		s.mu.waiting = slices.Delete(s.mu.waiting, 0, 1)
		idle := len(s.mu.waiting) == 0
		s.mu.Unlock()
		if idle {
			return
		}
	}
}

// put shows a question and waits for a line that answers it.
func (s *asks) put(q *question) {
	select {
	case <-q.over:
		return // answered while it waited in the queue
	case <-s.done:
		return
	default:
	}
	options := q.Options
	if q.About == event.QuestionApproval && len(options) == 0 { // from an older host
		options = []string{hub.Approve, hub.Deny, hub.Abort}
	}
	s.screen.Ask(render.Question(q.QuestionAsked, options, q.call))
	defer s.screen.Done()
	s.typed.Forget()
	talk := console.Talk{Say: s.screen.Say, Read: func() (string, error) { return s.line(q) }}
	a, err := talk.Answer(q.QuestionAsked, options)
	switch end, ok := errors.AsType[*overError](err); {
	case err == nil:
		s.answer(q, hub.Answer{Choice: a.Choice, Data: a.Data})
	case ok:
		s.screen.Say("\n  " + elsewhere(end.how) + "\n")
	case errors.Is(err, errLeft):
		s.screen.Say("\n")
	default: // a form of an older host, which this one can't read
		s.screen.Say("  " + render.Clean(err.Error()) + "\n")
		s.answer(q, hub.Answer{Choice: hub.Deny})
	}
}

// errLeft says that the program stops answering.
var errLeft = errors.New("no more questions are answered here")

// overError says that a question was answered elsewhere or withdrawn.
type overError struct{ how event.QuestionResolved }

func (e *overError) Error() string { return elsewhere(e.how) }

// line returns the next line that was typed for a question. Its errors are io.EOF, errLeft and [*overError].
func (s *asks) line(q *question) (string, error) {
	for {
		select {
		case line, more := <-s.typed.Line():
			current := s.typed.Taken()
			switch {
			case !more:
				return "", io.EOF
			case current:
				return line, nil
			}
			s.screen.Say("  discarded, because it may have been meant for the previous question; answer again: ")
		case r := <-q.over:
			return "", &overError{r}
		case <-s.done:
			return "", errLeft
		}
	}
}

// answer answers a question. If another client has answered first, the user is told what counts.
func (s *asks) answer(q *question, a hub.Answer) {
	err := s.thread.Answer(s.ctx, q.ID, a)
	if err == nil {
		return
	}
	if e := hub.ErrorOf(err); e.Code != hub.Answered {
		s.screen.Say("  not answered: " + render.Clean(e.Error()) + "\n")
		return
	}
	select {
	case r := <-q.over:
		s.screen.Say("  " + elsewhere(r) + "\n")
	case <-s.done:
	}
}

// elsewhere describes the end of a question that was not answered here.
func elsewhere(r event.QuestionResolved) string {
	if r.Answer == "" {
		return "no longer asked"
	}
	return "answered elsewhere: " + render.Clean(r.Answer)
}
