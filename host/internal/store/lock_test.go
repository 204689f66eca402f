package store_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

func TestOneWriterAThread(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	a, b := openAt(t, cfg), openAt(t, cfg)
	thread, other := event.NewThreadID(), event.NewThreadID()
	lock, err := a.LockThread(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*store.Store{"the same store": a, "another store": b} {
		_, err := s.LockThread(t.Context(), thread)
		if l, ok := errors.AsType[*store.LockedError](err); !ok || l.Owner.PID != os.Getpid() || l.Thread != thread || l.Owner.Since.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
		if owner, held, err := s.Holder(t.Context(), thread); owner.PID != os.Getpid() || !held || err != nil {
			t.Errorf("%s: Holder = %v, %v, %v", name, owner, held, err)
		}
	}
	if l, err := b.LockThread(t.Context(), other); err != nil {
		t.Errorf("another thread: %v", err)
	} else if err := l.Release(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(lock.Release(), lock.Release()); err != nil {
		t.Error(err)
	}
	if _, held, err := b.Holder(t.Context(), thread); held || err != nil {
		t.Errorf("after Release: %v, %v", held, err)
	}
	if entries, err := os.ReadDir(filepath.Join(filepath.Dir(cfg.Path), "locks")); err != nil || len(entries) != 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
	for _, id := range []event.ThreadID{"", "../x", "a/b", "a b", event.ThreadID(strings.Repeat("x", 65))} {
		if _, err := a.LockThread(t.Context(), id); err == nil {
			t.Errorf("LockThread(%q) has no error", id)
		}
		if _, _, err := a.Holder(t.Context(), id); err == nil {
			t.Errorf("Holder(%q) has no error", id)
		}
		if _, err := store.RunSocket(t.TempDir(), id); err == nil {
			t.Errorf("RunSocket(%q) has no error", id)
		}
	}
}

func TestLockingRaces(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	var holders, taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if _, _, err := s.Holder(t.Context(), "t"); err != nil {
					t.Error(err)
				}
				lock, err := s.LockThread(t.Context(), "t")
				if errors.As(err, new(*store.LockedError)) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold it", n)
				}
				taken.Add(1)
				holders.Add(-1)
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever got it")
	}
}

func TestRunSocket(t *testing.T) {
	t.Parallel()
	thread := event.NewThreadID()
	home, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	path, err := store.RunSocket(home, thread)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, "run", string(thread)+".sock"); path != want {
		t.Errorf("%s, want %s", path, want)
	}

	// Every length of home leads to a path that a socket can have, the same one each time.
	for n := range 200 {
		long := filepath.Join(home, strings.Repeat("x", n+1))
		if err := os.MkdirAll(long, 0o700); err != nil {
			t.Fatal(err)
		}
		path, err := store.RunSocket(long, thread)
		if err != nil {
			t.Fatalf("a home of %d bytes: %v", len(long), err)
		}
		again, err := store.RunSocket(long, thread)
		if err != nil || again != path {
			t.Errorf("a home of %d bytes: %s, then %s, %v", len(long), path, again, err)
		}
		if len(path) > store.MaxSocketPath {
			t.Errorf("a home of %d bytes: a path of %d", len(long), len(path))
		}
		info, err := os.Stat(filepath.Dir(path))
		if err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
			t.Errorf("its folder: %v, %v", info.Mode(), err)
		}
		if !strings.HasPrefix(path, long) {
			t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
		}
		if n%20 != 0 {
			continue
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Errorf("a home of %d bytes: %v", len(long), err)
			continue
		}
		_ = l.Close()
	}
}

func TestRunSocketRefusesAFolderThatIsNotPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no such folder")
	}
	home := filepath.Join(t.TempDir(), strings.Repeat("y", 150))
	path, err := store.RunSocket(home, "t")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := store.RunSocket(home, "t"); err == nil || !strings.Contains(err.Error(), "GANTRY_HOME") {
		t.Errorf("a folder that others can enter: %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := store.RunSocket(home, "t"); err == nil {
		t.Error("a link is accepted")
	}
}
