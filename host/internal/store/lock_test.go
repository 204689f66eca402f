package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
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
		if _, err := runsocket.Path(t.TempDir(), id); err == nil {
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
