package network

import (
	"context"
	"sync"
)

// Asks shares questions: while one is open about a target, whoever asks about the same waits for its answer. The zero value
// is ready.
type Asks struct {
	mu   sync.Mutex
	open map[string]*ask
}

type ask struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	answer  Answer
}

// Answer is what came of a question.
type Answer struct {
	Allow bool
	// Denied: somebody has said no. Otherwise a no is nobody's: there was none to ask.
	Denied bool
}

// Do returns the answer about a key, for which it puts the question if nobody does by now. The question's context ends when
// nobody waits for the answer any more; then, and when ctx ends, the answer is no. What put does ends before the last one
// that waits returns.
func (a *Asks) Do(ctx context.Context, key string, put func(context.Context) Answer) Answer {
	a.mu.Lock()
	q := a.open[key]
	if q == nil {
		asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q = &ask{cancel: cancel, done: make(chan struct{})}
		if a.open == nil {
			a.open = map[string]*ask{}
		}
		a.open[key] = q
		go func() { // owned by those who wait: the last of them waits for its end
			answer := put(asking)
			a.mu.Lock()
			q.answer = answer
			if a.open[key] == q {
				delete(a.open, key)
			}
			a.mu.Unlock()
			close(q.done)
		}()
	}
	q.waiting++
	a.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	a.mu.Lock()
	q.waiting--
	last := q.waiting == 0
	if last && a.open[key] == q {
		delete(a.open, key) // who comes now asks anew
	}
	a.mu.Unlock()
	if last {
		q.cancel()
		<-q.done
	}
	if ctx.Err() != nil {
		return Answer{}
	}
	return q.answer
}
