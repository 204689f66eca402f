package turn

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// Signal wakes callers that wait for something that a thread's turn has not read: input that joins the running turn, or mail. Each
// thread has one. It is safe for concurrent use. Host tools get it with their call; none of gantry's own tools waits for it yet.
type Signal struct {
	mail *Mailbox
	mu   struct {
		sync.Mutex
		inbox *Inbox        // of the running turn or the last one
		rung  chan struct{} // closed by the next ring; nil: there are no waiters
	}
}

// NewSignal returns a signal that mail added to the mailbox rings.
func NewSignal(mail *Mailbox) *Signal {
	s := &Signal{mail: mail}
	mail.signal = s
	return s
}

// NewInbox returns the inbox of the next turn. Input added to it rings the signal.
func (s *Signal) NewInbox() *Inbox {
	b := &Inbox{signal: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.inbox = b
	return b
}

// Wait returns as soon as unread input or mail exists, including what arrived before the call. It removes nothing: the turn reads
// the inbox and the mailbox before its next request. If ctx ends first, Wait returns its cause.
func (s *Signal) Wait(ctx context.Context) (orchestrate.Arrival, error) {
	for {
		rung := s.next() // before checking, so that a ring after the check is not missed
		if a := s.pending(); a != orchestrate.NoArrival {
			return a, nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return orchestrate.NoArrival, context.Cause(ctx)
		}
	}
}

// next returns a channel that the next ring closes.
func (s *Signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.rung == nil {
		s.mu.rung = make(chan struct{})
	}
	return s.mu.rung
}

func (s *Signal) pending() orchestrate.Arrival {
	s.mu.Lock()
	inbox := s.mu.inbox
	s.mu.Unlock()
	switch {
	case inbox != nil && !inbox.Empty():
		return orchestrate.InputArrival
	case s.mail.Pending():
		return orchestrate.MailArrival
	}
	return orchestrate.NoArrival
}

// ring wakes all waiters after something has been added. It does nothing on a nil signal.
func (s *Signal) ring() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.rung != nil {
		close(s.mu.rung)
		s.mu.rung = nil
	}
}
