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
	leave  func()    // nil: the thread does not count on this server
	left   time.Time // when a client has left that no other one has joined after; zero: there is none
	away   *away     // nil: there are clients, or none will return
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
	s.subs[sub], s.left = true, time.Time{}
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

// returnTimeout is how long calls wait for a client that has left to return if there is no other one, as questions to people do.
const returnTimeout = 10 * time.Second

// Leave removes a client, which may return.
func (s *Serving[S]) Leave(sub S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.subs[sub] {
		return
	}
	delete(s.subs, sub)
	s.left = time.Now()
	if len(s.subs) == 0 && s.leave != nil {
		s.await(returnTimeout)
	}
}

// await ends serving after d unless a client joins before. The mutex is held.
func (s *Serving[S]) await(d time.Duration) {
	a := &away{over: make(chan struct{})}
	a.timer = time.AfterFunc(d, func() {
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

// Refuse removes a client that can't run tools. If it was the last one, calls fail, unless another client has left so recently that it may
// return.
func (s *Serving[S]) Refuse(sub S) {
	s.mu.Lock()
	var leave func()
	if s.subs[sub] {
		delete(s.subs, sub)
		if wait := returnTimeout - time.Since(s.left); len(s.subs) > 0 || s.leave == nil {
			// nothing changes
		} else if wait > 0 {
			s.await(wait)
		} else {
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
