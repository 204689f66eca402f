package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
)

// Owner is the process that holds something.
type Owner = database.Owner

// locksOf are the locks of a database that several machines may use, else files in a folder.
func locksOf(db *database.DB, dir string) database.Locks {
	if l := db.Locks(); l != nil {
		return l
	}
	return fileLocks{dir}
}

// fileLocks are locked files in a folder: for a database that only processes of this machine use.
type fileLocks struct{ dir string }

func (f fileLocks) path(name string) string { return filepath.Join(f.dir, name+".lock") }

// Take implements [database.Locks].
func (f fileLocks) Take(_ context.Context, name, purpose string) (database.Lock, error) {
	lock, err := flock.Take(f.path(name), purpose)
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, &database.HeldError{Name: held.Path, Owner: Owner{PID: held.Owner.PID, Since: held.Owner.Since}}
	}
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// Holder implements [database.Locks].
func (f fileLocks) Holder(_ context.Context, name string) (Owner, bool, error) {
	owner, held, err := flock.Held(f.path(name))
	return Owner{PID: owner.PID, Since: owner.Since}, held, err
}

// Fence implements [database.Locks]: the kernel takes no lock away from a process that lives.
func (f fileLocks) Fence(string) (string, []any) { return "", nil }

// ThreadLock is the right to write to a thread.
type ThreadLock struct{ lock database.Lock }

// Release gives the right back. Calling it again does nothing. The end of the process does it too, however it ends.
func (l *ThreadLock) Release() error { return l.lock.Release() }

// LockThread takes the right to write to a thread, which one process has at a time, in one place. If it is taken the error
// is a [*LockedError] that names the process. LockThread does not wait.
func (s *Store) LockThread(ctx context.Context, thread event.ThreadID) (*ThreadLock, error) {
	if err := checkThreadID(thread); err != nil {
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
	if err := checkThreadID(thread); err != nil {
		return Owner{}, false, err
	}
	return s.locks.Holder(ctx, string(thread))
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
