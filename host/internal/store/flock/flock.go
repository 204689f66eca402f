// Package flock locks files against other processes. The holder writes a note about itself into the file, and the kernel releases
// the lock when the holder's process ends, however it ends.
//
// It owns: locking, probing and releasing files, and the note in them. It must not know: what a lock protects.
//
// Start with [Take].
package flock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Owner is the note in a locked file.
type Owner struct {
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Purpose string    `json:"purpose,omitempty"`
}

// HeldError says that the file is already locked.
type HeldError struct {
	Path  string
	Owner Owner // zero if the note could not be read
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.Owner.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.Path)
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.Owner.PID)
}

// Lock is a file that this process has locked.
type Lock struct {
	path string
	mu   struct {
		sync.Mutex
		f *os.File // nil after Release
	}
}

// takeTries limits how often Take starts over because the holder may be [Held], which locks the file for a moment to probe it. If
// the file is removed between opening and locking it, that does not count: its holder has released it, so there is progress.
const takeTries = 10

// Take creates the file at path if necessary, locks it, and writes the owner into it. It does not wait: if the file is locked, the
// error is a [*HeldError].
func Take(path, purpose string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	for try := 1; ; {
		l, err := take(path, purpose)
		held, ok := errors.AsType[*HeldError](err)
		switch {
		case l != nil:
			return l, nil
		case errors.Is(err, errGone):
		case !ok:
			return nil, err
		case Alive(held.Owner.PID), try == takeTries:
			return nil, held
		default:
			try++
		}
		pause := time.NewTimer(rand.N(2 * time.Millisecond))
		<-pause.C
	}
}

// errGone says that the locked file is no longer the one at its path.
var errGone = errors.New("the lock file was removed meanwhile")

func take(path, purpose string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	ok, err := tryLock(f, true)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if !ok {
		owner := readOwner(f)
		return nil, errors.Join(&HeldError{Path: path, Owner: owner}, f.Close())
	}
	if !same(f, path) {
		return nil, errors.Join(errGone, f.Close())
	}
	note, err := json.Marshal(Owner{PID: os.Getpid(), Since: time.Now().UTC(), Purpose: purpose})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(note, '\n'), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	l := &Lock{path: path}
	l.mu.f = f
	return l, nil
}

func same(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func readOwner(f *os.File) Owner {
	var o Owner
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil || json.Unmarshal(b, &o) != nil {
		return Owner{} // the holder has not written it yet
	}
	return o
}

// Release removes the file and releases the lock. Further calls do nothing.
func (l *Lock) Release() error {
	l.mu.Lock()
	f := l.mu.f
	l.mu.f = nil
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	// The file is removed while it is locked: a process that has opened it before notices that after locking it, and starts over.
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Held returns the owner of the lock on the file at path, if it is locked.
func Held(path string) (Owner, bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Owner{}, false, nil
	}
	if err != nil {
		return Owner{}, false, fmt.Errorf("look at lock %s: %w", path, err)
	}
	defer f.Close()
	free, err := tryLock(f, false)
	if err != nil {
		return Owner{}, false, fmt.Errorf("look at lock %s: %w", path, err)
	}
	if free {
		return Owner{}, false, nil // closing f releases it
	}
	return readOwner(f), true, nil
}

// With runs fn while this process has the file at path locked, either shared or exclusively. It waits for the lock until ctx ends.
// The file is not removed.
func With(ctx context.Context, path string, exclusive bool, fn func() error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer f.Close()
	// Polling, because a blocking flock can't be cancelled when ctx ends.
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		ok, err := tryLock(f, exclusive)
		if err != nil {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if ok {
			return fn()
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("wait for lock %s: %w", path, context.Cause(ctx))
		}
	}
}

// Share locks the file at path together with others that share it, until the result is closed. It waits for who has the file exclusively
// through [With]. Only with create, a missing file is created.
func Share(path string, create bool) (io.Closer, error) {
	how := os.O_RDONLY
	if create {
		how = os.O_CREATE | os.O_RDWR
	}
	f, err := os.OpenFile(path, how, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := waitLock(f, false); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}
