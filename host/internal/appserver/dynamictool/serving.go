package dynamictool

import (
	"context"
	"sync"
	"time"
)

// Serving is which clients run the tools of a thread. S is the subscription of a client to the thread. Its methods may be called
// concurrently.
type Serving[S comparable] struct {
	enter func(ctx context.Context) (leave func(), err error)

	mu     sync.Mutex
	subs   map[S]bool
	leave  func() // nil: the thread does not count on this server
	away   *away  // nil: there are clients, or the last one will not return
	closed bool
}

// away is the time in which a client can return.
type away struct {
	timer *time.Timer
	over  chan struct{} // closed when the timer's function has returned
}

// NewServing returns who runs the tools of a thread: no one. enter tells the thread that its tools can be called until leave is called.
func NewServing[S comparable](enter func(ctx context.Context) (leave func(), err error)) *Serving[S] {
	return &Serving[S]{enter: enter, subs: map[S]bool{}}
}

// Join adds a client. When it returns, the thread's tools can be called.
func (s *Serving[S]) Join(ctx context.Context, sub S) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.subs[sub] = true
	if s.away != nil {
		s.away.timer.Stop() // its function does nothing otherwise
		s.away = nil
	}
	entered := s.leave != nil
	s.mu.Unlock()
	if entered {
		return nil
	}
	leave, err := s.enter(ctx)
	s.mu.Lock()
	if err == nil && s.leave == nil && !s.closed && len(s.subs) > 0 {
		s.leave, leave = leave, nil
	}
	if err != nil {
		delete(s.subs, sub)
	}
	s.mu.Unlock()
	if leave != nil { // it has left again, or another client has been faster
		leave()
	}
	return err
}

// returnTimeout is how long calls wait for a client to return after the last one has left, as questions to people do.
const returnTimeout = 10 * time.Second

// Leave removes a client, which may return.
func (s *Serving[S]) Leave(sub S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.subs[sub] {
		return
	}
	delete(s.subs, sub)
	if len(s.subs) > 0 || s.leave == nil {
		return
	}
	a := &away{over: make(chan struct{})}
	a.timer = time.AfterFunc(returnTimeout, func() {
		defer close(a.over)
		s.mu.Lock()
		var leave func()
		if s.away == a {
			leave, s.leave, s.away = s.leave, nil, nil
		}
		s.mu.Unlock()
		if leave != nil {
			leave()
		}
	})
	s.away = a
}

// Refuse removes a client that can't run tools.
func (s *Serving[S]) Refuse(sub S) {
	s.mu.Lock()
	var leave func()
	if s.subs[sub] {
		delete(s.subs, sub)
		if len(s.subs) == 0 {
			leave, s.leave = s.leave, nil
		}
	}
	s.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// Close ends it. It is idempotent.
func (s *Serving[S]) Close() {
	s.mu.Lock()
	s.closed = true
	leave, waits := s.leave, s.away
	s.leave, s.away = nil, nil
	clear(s.subs)
	s.mu.Unlock()
	if waits != nil && !waits.timer.Stop() {
		<-waits.over
	}
	if leave != nil {
		leave()
	}
}
