package dynamictool

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// presence counts how often a thread was told that its tools can be called.
type presence struct {
	entered, left atomic.Int32
	err           error
}

func (p *presence) enter(context.Context) (func(), error) {
	if p.err != nil {
		return nil, p.err
	}
	p.entered.Add(1)
	return func() { p.left.Add(1) }, nil
}

func (p *presence) is(t *testing.T, when string, entered, left int32) {
	t.Helper()
	synctest.Wait()
	if e, l := p.entered.Load(), p.left.Load(); e != entered || l != left {
		t.Errorf("%s: entered %d times and left %d, want %d and %d", when, e, l, entered, left)
	}
}

// The thread's tools can be called while there is a client, and for a while after the last one has left. A client that can't run tools is
// not waited for.
func TestServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &presence{}
		s := NewServing[string](p.enter)
		join := func(sub string) {
			t.Helper()
			if err := s.Join(t.Context(), sub); err != nil {
				t.Fatal(err)
			}
		}
		s.Leave("nobody")
		s.Refuse("nobody")
		join("a")
		join("b")
		p.is(t, "two clients", 1, 0)
		s.Leave("a")
		time.Sleep(time.Hour)
		p.is(t, "one has left", 1, 0)
		s.Leave("b")
		time.Sleep(returnTimeout - time.Second)
		p.is(t, "both have left", 1, 0)
		join("a")
		time.Sleep(time.Hour)
		p.is(t, "one has returned", 1, 0)
		s.Leave("a")
		time.Sleep(returnTimeout)
		p.is(t, "and stays away", 1, 1)
		join("a")
		p.is(t, "until it returns", 2, 1)

		join("b")
		s.Refuse("b")
		p.is(t, "one can't", 2, 1)
		s.Refuse("a")
		p.is(t, "none can", 2, 2)
		s.Leave("a")
		s.Close()
		s.Close()
		p.is(t, "closed", 2, 2)
		join("a")
		p.is(t, "too late", 2, 2)
	})
}

// When the last client says that it can't run tools, a client that has just left may still return.
func TestServingWaitsForAnotherClient(t *testing.T) {
	for _, returns := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := &presence{}
			s := NewServing[string](p.enter)
			defer s.Close()
			for _, sub := range []string{"a", "b"} {
				if err := s.Join(t.Context(), sub); err != nil {
					t.Fatal(err)
				}
			}
			s.Leave("a")
			time.Sleep(returnTimeout / 2)
			s.Refuse("b")
			time.Sleep(returnTimeout/2 - time.Second)
			p.is(t, "one has left, the other one can't", 1, 0)
			if !returns {
				time.Sleep(time.Second)
				p.is(t, "and the first one stays away", 1, 1)
				return
			}
			if err := s.Join(t.Context(), "a again"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			p.is(t, "the first one has returned", 1, 0)
			s.Refuse("a again")
			p.is(t, "and can't either", 1, 1)
		})
	}
}

// Close ends what is left, also while a client is away.
func TestServingCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []bool{false, true} {
			p := &presence{}
			s := NewServing[string](p.enter)
			if err := s.Join(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if away {
				s.Leave("a")
			}
			s.Close()
			p.is(t, "closed", 1, 1)
		}
	})
}

// A client whose thread has ended does not count.
func TestServingAThreadThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &presence{err: errors.New("ended")}
		s := NewServing[string](p.enter)
		if err := s.Join(t.Context(), "a"); !errors.Is(err, p.err) {
			t.Errorf("Join = %v", err)
		}
		p.err = nil
		s.Leave("a")
		time.Sleep(time.Hour)
		p.is(t, "never", 0, 0)
	})
}

// A client that leaves while the thread is being told has left.
func TestServingLeavesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &presence{}
		reached, release := make(chan struct{}), make(chan struct{})
		s := NewServing[string](func(ctx context.Context) (func(), error) {
			close(reached)
			<-release
			return p.enter(ctx)
		})
		joined := make(chan error)
		go func() { joined <- s.Join(t.Context(), "a") }() // owned by the test: received below
		<-reached
		s.Leave("a")
		close(release)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		p.is(t, "left", 1, 1)
	})
}
