//go:build linux || darwin

package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks", "x.lock")
	if _, held, err := Held(path); held || err != nil {
		t.Errorf("before: %v, %v", held, err)
	}
	l, err := Take(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(path, "again")
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Owner.PID != os.Getpid() || held.Owner.Purpose != "test" || time.Since(held.Owner.Since) > time.Minute ||
		!strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("%v", err)
	}
	if owner, held, err := Held(path); !held || owner.PID != os.Getpid() || err != nil {
		t.Errorf("Held = %+v, %v, %v", owner, held, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := errors.Join(l.Release(), l.Release()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}

func TestWhatACrashLeftBehindIsFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, note := range map[string]string{
		"note": `{"pid":1,"since":"2026-01-01T00:00:00Z"}`, "empty": "", "garbage": "\x00\xff",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		if owner, held, err := Held(path); held || err != nil {
			t.Errorf("%s: Held = %+v, %v, %v", name, owner, held, err)
		}
		l, err := Take(path, "test")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if owner, held, _ := Held(path); !held || owner.PID != os.Getpid() {
			t.Errorf("%s: its note is %+v", name, owner)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestAHolderThatWroteNoNote(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := tryLock(f, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := Take(path, "test"); !errors.As(err, new(*HeldError)) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("%v", err)
	}
	if owner, held, err := Held(path); !held || owner.PID != 0 || err != nil {
		t.Errorf("Held = %+v, %v, %v", owner, held, err)
	}
}

func TestTakeSaysWhatIsWrongWithThePath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "file", "x")} {
		_ = os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
		if _, err := Take(path, "test"); err == nil || errors.As(err, new(*HeldError)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	var holders, taken atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 200 {
				l, err := Take(path, "test")
				if err != nil {
					if !errors.As(err, new(*HeldError)) && !errors.Is(err, errGone) {
						t.Error(err)
					}
					continue
				}
				taken.Add(1)
				if holders.Add(1) != 1 {
					t.Error("two hold it")
				}
				for range 20 {
					runtime.Gosched() // others come and go meanwhile
				}
				holders.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever held it")
	}
}

func TestWhile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	var readers, most, writers atomic.Int32
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for n := range 8 {
		wg.Go(func() {
			err := With(t.Context(), path, n%4 == 0, func() error {
				if n%4 == 0 {
					if writers.Add(1) != 1 || readers.Load() != 0 {
						t.Error("a writer is not alone")
					}
					writers.Add(-1)
					return nil
				}
				r := readers.Add(1)
				if writers.Load() != 0 {
					t.Error("a reader meets a writer")
				}
				if r == 6 {
					close(gate)
				}
				most.Store(max(most.Load(), r))
				<-gate // all six are in at once
				readers.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 6 {
		t.Errorf("%d readers at once", most.Load())
	}

	no := errors.New("no")
	err := With(t.Context(), path, true, func() error {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(no)
		return With(ctx, path, false, func() error { t.Error("it is held"); return nil })
	})
	if !errors.Is(err, no) {
		t.Errorf("%v, want the cause of the end of its context", err)
	}
	if err := With(t.Context(), path, true, func() error { return no }); !errors.Is(err, no) {
		t.Errorf("%v, want what fn returned", err)
	}
}
