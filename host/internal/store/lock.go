package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

// Owner is the process that holds a lock.
type Owner = database.Owner

// ThreadLock is the exclusive right to write to a thread.
type ThreadLock struct{ lock database.Lock }

// Release releases the lock. Further calls do nothing. The end of the process releases it as well, however it ends.
func (l *ThreadLock) Release() error { return l.lock.Release() }

// LockThread acquires the exclusive right to write to a thread. It does not wait: if the thread is locked, in this process or in
// another one, the error is a [*LockedError] that names the process.
func (s *Store) LockThread(ctx context.Context, thread event.ThreadID) (*ThreadLock, error) {
	if err := thread.Check(); err != nil {
		return nil, err
	}
	lock, err := s.locks.Take(ctx, string(thread), "thread")
	if held, ok := errors.AsType[*database.HeldError](err); ok {
		return nil, &LockedError{Thread: thread, Owner: held.Owner}
	}
	if err != nil {
		return nil, fmt.Errorf("lock thread %s: %w", thread, err)
	}
	return &ThreadLock{lock: lock}, nil
}

// Holder returns the process that has locked a thread, if any.
func (s *Store) Holder(ctx context.Context, thread event.ThreadID) (owner Owner, held bool, err error) {
	if err := thread.Check(); err != nil {
		return Owner{}, false, err
	}
	return s.locks.Holder(ctx, string(thread))
}
