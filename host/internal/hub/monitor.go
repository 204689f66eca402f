package hub

import (
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// monitor keeps the states of running threads and reports changes to watchers. It learns of events synchronously, so it does not need a
// subscription for each thread.
type monitor struct {
	idle func() // called when a thread may have become idle

	mu struct {
		sync.Mutex
		states   map[event.ThreadID]*state
		watchers map[*watcher]struct{}
		closed   bool
	}
}

type state struct {
	Status
	known bool      // watchers know the thread
	since time.Time // of the last change of State
	asked map[string]event.QuestionKind
}

func newMonitor(idle func()) *monitor {
	m := &monitor{idle: idle}
	m.mu.states, m.mu.watchers = map[event.ThreadID]*state{}, map[*watcher]struct{}{}
	return m
}

// observe implements the function of [host.Shared]. Threads that the hub does not know yet, or never will because they work for other
// threads, are observed as well.
func (m *monitor) observe(evs []event.Event) {
	for _, e := range evs {
		switch e.Body.(type) {
		case event.TurnStarted, event.TurnEnded, event.QuestionAsked, event.QuestionResolved, event.ThreadNamed, event.ThreadArchived, event.ThreadReverted:
			m.apply(e, false)
		}
	}
}

// apply follows an event of a thread.
func (m *monitor) apply(e event.Event, remote bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mu.states[e.Thread]
	if s == nil {
		s = newState(Status{State: Idle, Remote: remote})
		m.mu.states[e.Thread] = s
	}
	c := Change{Kind: ThreadStatus, Thread: e.Thread}
	was := s.Status
	switch b := e.Body.(type) {
	case event.TurnStarted:
		s.State, s.Turn, s.since = Active, e.Turn, time.Now()
	case event.TurnEnded:
		s.State, s.Turn, s.since = Idle, "", time.Now()
		if b.Status == event.TurnFailed {
			s.State = Failed
		}
		clear(s.asked)
		m.idle()
	case event.QuestionAsked:
		if b.About.ForPerson() {
			s.asked[b.ID] = b.About
		}
	case event.QuestionResolved:
		delete(s.asked, b.ID)
	case event.ThreadNamed:
		c.Kind, c.Name = ThreadNamed, b.Name
	case event.ThreadArchived:
		if c.Kind = ThreadUnarchived; b.Archived {
			c.Kind = ThreadArchived
		}
	case event.ThreadReverted:
		c.Kind = ThreadReverted
	default:
		return
	}
	s.WaitingOnApproval, s.WaitingOnInput = false, false
	for _, about := range s.asked {
		if about == event.QuestionApproval || about == event.QuestionPermissions {
			s.WaitingOnApproval = true
		} else {
			s.WaitingOnInput = true
		}
	}
	if s.known && (c.Kind != ThreadStatus || s.Status != was) {
		c.Status = s.Status
		m.tellLocked(c)
	}
}

func newState(s Status) *state {
	return &state{Status: s, since: time.Now(), asked: map[string]event.QuestionKind{}}
}

// loaded makes a thread known to watchers. initial is its status if no event has told it yet.
func (m *monitor) loaded(id event.ThreadID, initial Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mu.states[id]
	if s == nil {
		s = newState(initial)
		m.mu.states[id] = s
	}
	s.known = true
	m.tellLocked(Change{Kind: ThreadLoaded, Thread: id, Status: s.Status})
}

// ended forgets a thread.
func (m *monitor) ended(id event.ThreadID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mu.states[id]
	delete(m.mu.states, id)
	if s != nil && s.known {
		m.tellLocked(Change{Kind: ThreadClosed, Thread: id, Status: Status{State: NotLoaded}})
	}
}

// tell reports a change that no event of a running thread has told.
func (m *monitor) tell(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellLocked(c)
}

func (m *monitor) tellLocked(c Change) {
	for w := range m.mu.watchers {
		w.offer(c)
	}
}

func (m *monitor) status(id event.ThreadID) Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.mu.states[id]; s != nil {
		return s.Status
	}
	return Status{State: NotLoaded}
}

// idleSince returns since when a thread has run no turn; ok is false if one runs.
func (m *monitor) idleSince(id event.ThreadID) (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mu.states[id]
	if s == nil || s.State == Active {
		return time.Time{}, false
	}
	return s.since, true
}

func (m *monitor) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	for w := range m.mu.watchers {
		w.end(errClosed)
	}
}
