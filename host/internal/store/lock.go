package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
)

// ThreadLock is the right to write to a thread.
type ThreadLock struct{ lock *flock.Lock }

// Release gives the right back. Calling it again does nothing. The end of the process does it too, however it ends.
func (l *ThreadLock) Release() error { return l.lock.Release() }

// LockThread takes the right to write to a thread, which one process has at a time, in one place. If it is taken the error
// is a [*LockedError] that names the process. LockThread does not wait.
func (s *Store) LockThread(thread event.ThreadID) (*ThreadLock, error) {
	path, err := s.lockPath(thread)
	if err != nil {
		return nil, err
	}
	lock, err := flock.Take(path, "thread")
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, &LockedError{Thread: thread, PID: held.Owner.PID, Since: held.Owner.Since}
	}
	if err != nil {
		return nil, fmt.Errorf("lock thread %s: %w", thread, err)
	}
	return &ThreadLock{lock: lock}, nil
}

// Holder tells which process has the right to write to a thread, if any has.
func (s *Store) Holder(thread event.ThreadID) (pid int, held bool, err error) {
	path, err := s.lockPath(thread)
	if err != nil {
		return 0, false, err
	}
	owner, held, err := flock.Held(path)
	return owner.PID, held, err
}

func (s *Store) lockPath(thread event.ThreadID) (string, error) {
	if err := checkThreadID(thread); err != nil {
		return "", err
	}
	return filepath.Join(s.cfg.LockDir, string(thread)+".lock"), nil
}

// maxThreadIDBytes is far more than the 36 of a UUID.
const maxThreadIDBytes = 64

// checkThreadID lets a thread's id become part of a path: letters, digits, dashes and underscores.
func checkThreadID(thread event.ThreadID) error {
	ok := thread != "" && len(thread) <= maxThreadIDBytes
	for i := 0; ok && i < len(thread); i++ {
		c := thread[i]
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
	}
	if !ok {
		return fmt.Errorf("thread id %q: not an id", thread)
	}
	return nil
}
