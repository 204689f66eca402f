package network

import (
	"context"
	"sync"
)

// Questions avoids asking the same question concurrently: while one is open, further callers with the same key wait for its answer. The zero
// value is ready.
type Questions struct {
	mu   sync.Mutex
	open map[string]*question
}

type question struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	answer  Answer
}

// Answer is the answer to a question.
type Answer struct {
	Allow bool
	// Denied: a person or a reviewer has said no. Otherwise there was none to ask.
	Denied bool
}

// Do returns the answer about a key. It calls put to ask the question, unless that is being asked already. If ctx ends the answer is no.
// The context of put ends when no caller waits for the answer any more; the last of them returns after put has.
func (a *Questions) Do(ctx context.Context, key string, put func(context.Context) Answer) Answer {
	a.mu.Lock()
	q := a.open[key]
	if q == nil {
		asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q = &question{cancel: cancel, done: make(chan struct{})}
		if a.open == nil {
			a.open = map[string]*question{}
		}
		a.open[key] = q
		go func() { // owned by the callers that wait: the last of them waits for its end
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
		delete(a.open, key) // the next caller asks again
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
