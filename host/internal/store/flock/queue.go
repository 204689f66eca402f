package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Queue is a lock that processes acquire about in the order in which they ask for it. Nothing polls: the kernel wakes the next
// one. Of one Queue, one goroutine at a time may wait or hold the lock.
//
// A flock alone is not fair: who releases it and asks again at once is faster than the process that has been woken. So there are two
// locks. The next holder waits for lock while it has next, and all others wait for next, which a former holder finds taken.
type Queue struct {
	next, lock *os.File
	mu         struct {
		sync.Mutex
		turn   chan error // of a goroutine that waits in the kernel; nil: there is none
		wanted bool       // whether a caller waits for that turn
		closed bool
	}
}

// OpenQueue opens the queue of the files path-next and path-lock, which are created if necessary and never removed.
func OpenQueue(path string) (*Queue, error) {
	next, err := os.OpenFile(path+"-next", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	lock, err := os.OpenFile(path+"-lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), next.Close())
	}
	return &Queue{next: next, lock: lock}, nil
}

// Acquire waits for the lock until ctx ends.
func (q *Queue) Acquire(ctx context.Context) error {
	turn, err := q.ask()
	if turn == nil || err != nil {
		return err
	}
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-turn:
		return err
	default:
	}
	q.mu.wanted = false
	return context.Cause(ctx)
}

// ask returns the channel of the turn that the caller has to wait for, or nil if the lock was free and is acquired.
func (q *Queue) ask() (<-chan error, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return nil, os.ErrClosed
	}
	q.mu.wanted = true
	if q.mu.turn != nil {
		return q.mu.turn, nil // of a caller that has given up
	}
	isNext, err := tryLock(q.next, true)
	if err != nil {
		return nil, err
	}
	if isNext {
		if free, err := tryLock(q.lock, true); free || err != nil {
			return nil, errors.Join(err, unlock(q.next))
		}
	}
	q.mu.turn = make(chan error, 1)
	// Owned by the queue: ends when its turn comes, at the latest when the processes before it have ended. A blocking flock can't be
	// cancelled.
	go q.wait(q.mu.turn, isNext)
	return q.mu.turn, nil
}

// wait waits for a turn, which it passes on if no caller wants it any more.
func (q *Queue) wait(turn chan<- error, isNext bool) {
	var err error
	if !isNext {
		err = waitLock(q.next, true)
	}
	if err == nil {
		err = errors.Join(waitLock(q.lock, true), unlock(q.next))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.turn = nil
	if q.mu.wanted {
		turn <- err
		return
	}
	q.Release()
	if q.mu.closed {
		_ = q.close() // it closes files that were only locked
	}
}

// Release releases the lock.
func (q *Queue) Release() {
	_ = unlock(q.lock) // the only possible error is that of a closed file, which has no lock
}

// Close releases the lock and closes the files. Another goroutine that waits gives up only when its turn comes.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return nil
	}
	q.mu.closed = true
	if q.mu.turn != nil {
		return nil // wait closes them
	}
	return q.close()
}

func (q *Queue) close() error { return errors.Join(q.next.Close(), q.lock.Close()) }
