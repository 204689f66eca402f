package turn

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// Signal wakes callers that wait until there is something for a thread's turn to read: input that joins the running turn, or mail. It
// is the thread's, and it is safe for concurrent use. Host tools find it in their call. None of gantry's tools waits for it yet.
type Signal struct {
	mail *Mailbox
	mu   struct {
		sync.Mutex
		inbox *Inbox        // of the running turn, or of the last one
		rung  chan struct{} // closed by the next ring; nil: no caller waits
	}
}

// NewSignal returns a signal that new mail in the mailbox rings.
func NewSignal(mail *Mailbox) *Signal {
	s := &Signal{mail: mail}
	mail.signal = s
	return s
}

// NewInbox returns the inbox of the next turn. It rings the signal too.
func (s *Signal) NewInbox() *Inbox {
	b := &Inbox{signal: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.inbox = b
	return b
}

// Wait returns as soon as something waits to be read, and at once if it already does: what arrived before the call is not missed.
// It takes nothing out of the inbox or the mailbox; the turn reads both before its next request. If ctx ends first, the error is its
// cause.
func (s *Signal) Wait(ctx context.Context) (orchestrate.Arrival, error) {
	for {
		rung := s.next() // before the look: a ring after it is not missed
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

// ring wakes all callers of Wait, after something has been added. A nil signal has none.
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
