package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

// Owner is the process that holds something.
type Owner = database.Owner

// ThreadLock is the right to write to a thread.
type ThreadLock struct{ lock database.Lock }

// Release gives the right back. Calling it again does nothing. The end of the process does it too, however it ends.
func (l *ThreadLock) Release() error { return l.lock.Release() }

// LockThread takes the right to write to a thread, which one process has at a time, in one place. If it is taken the error
// is a [*LockedError] that names the process. LockThread does not wait.
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

// Holder tells which process has the right to write to a thread, if any has.
func (s *Store) Holder(ctx context.Context, thread event.ThreadID) (owner Owner, held bool, err error) {
	if err := thread.Check(); err != nil {
		return Owner{}, false, err
	}
	return s.locks.Holder(ctx, string(thread))
}
