// Package flock holds files exclusively between processes: who holds one writes down who it is, and the kernel lets go of
// it when that process ends, however it ends.
//
// It owns: taking, probing and leaving locked files, and the note in them. It must not know: what is protected.
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

// HeldError says that somebody else holds the file.
type HeldError struct {
	Path  string
	Owner Owner // zero when the note could not be read
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.Owner.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.Path)
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.Owner.PID)
}

// Lock is a file that this process holds.
type Lock struct {
	path string
	mu   struct {
		sync.Mutex
		f *os.File // nil once released
	}
}

// takeTries bounds how often Take starts over because of a holder who may be [Held], which holds a file for an instant while
// it looks. A file that vanishes between opening and locking it is no try: its holder has left, so somebody gets on.
const takeTries = 10

// Take holds the file at path, which is made if missing, and notes the owner in it. It does not wait: a file that is held
// is a [*HeldError].
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

// errGone: the file that was locked is not the one at the path any more.
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
		return Owner{} // the holder is just about to write it
	}
	return o
}

// Release lets go and removes the file. Calling it again does nothing.
func (l *Lock) Release() error {
	l.mu.Lock()
	f := l.mu.f
	l.mu.f = nil
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	// Removed while held: who opened it before and locks it after sees that it is gone and starts over.
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Held tells who holds the file at path, if anybody does.
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
		return Owner{}, false, nil // closing f lets go of it
	}
	return readOwner(f), true, nil
}

// With runs fn while this process holds the file at path, for reading beside other readers or exclusively. It waits until
// ctx ends. The file stays.
func With(ctx context.Context, path string, exclusive bool, fn func() error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer f.Close()
	// A blocking flock could not be given up when ctx ends; no event tells that another process is done.
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
