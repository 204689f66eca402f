package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

func mustAppend(t *testing.T, s *store.Store, events ...event.Event) {
	t.Helper()
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

func mustBarrier(t *testing.T, s *store.Store, events []event.Event) {
	t.Helper()
	last := events[len(events)-1]
	if err := s.Barrier(t.Context(), last.Thread, last.Seq); err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, s *store.Store, thread event.ThreadID, after uint64) []event.Event {
	t.Helper()
	var events []event.Event
	for e, err := range s.Events(t.Context(), thread, after) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// reopen closes a store and opens it again.
func reopen(t *testing.T, s *store.Store, cfg store.Config) *store.Store {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return openAt(t, cfg)
}

func openAt(t testing.TB, cfg store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestReopen(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	a, b := storetest.Story(event.NewThreadID(), 3), storetest.Story(event.NewThreadID(), 40)
	for i := range max(len(a), len(b)) { // interleaved
		if i < len(a) {
			mustAppend(t, s, a[i])
		}
		if i < len(b) {
			mustAppend(t, s, b[i])
		}
	}
	s = reopen(t, s, cfg)
	for _, want := range [][]event.Event{a, b} {
		if got := stored(t, s, want[0].Thread, 0); !reflect.DeepEqual(got, want) {
			t.Errorf("thread %s: %d events came back, not the %d that were appended", want[0].Thread, len(got), len(want))
		}
	}
	if got := stored(t, s, b[0].Thread, 395); len(got) != 6 || got[0].Seq != 396 {
		t.Errorf("behind event 395 of 401: %d events, the first is %d", len(got), got[0].Seq)
	}
	mustAppend(t, s, event.Event{Seq: 32, Thread: a[0].Thread, Time: time.Now(), Body: event.ThreadNamed{Name: "goes on"}})
	mustBarrier(t, s, []event.Event{{Seq: 32, Thread: a[0].Thread}})
}

func TestReadsSeeAppendedEvents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, func(c *store.Config) { c.BatchDelay = time.Hour })
	story := storetest.Story(event.NewThreadID(), 1)
	mustAppend(t, s, story...)
	if got := stored(t, s, story[0].Thread, 0); len(got) != len(story) {
		t.Errorf("%d of %d events", len(got), len(story))
	}
}

func TestAppendIgnoresTransientEvents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	story := storetest.Story(event.NewThreadID(), 1)
	delta := event.Event{Thread: story[0].Thread, Time: time.Now(), Body: event.ItemDelta{Item: "i", Text: "x"}}
	mustAppend(t, s, delta)
	mustAppend(t, s, story[0], delta, story[1])
	if got := stored(t, s, story[0].Thread, 0); len(got) != 2 {
		t.Errorf("%d events", len(got))
	}
}

func TestAppendRejectsInvalidEvents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	named := event.ThreadNamed{Name: "n"}
	for name, e := range map[string]event.Event{
		"no body":    {Seq: 1, Thread: "t"},
		"no thread":  {Seq: 1, Body: named},
		"no number":  {Thread: "t", Body: named},
		"no JSON":    {Seq: 1, Thread: "t", Body: event.PluginEvent{Payload: []byte("{")}},
		"oversized":  {Seq: 1, Thread: "t", Body: event.Notice{Text: strings.Repeat("x", 64<<20)}},
		"not first":  {Seq: 3, Thread: "t", Body: named},
		"not second": {Seq: 1, Thread: "t", Body: named},
	} {
		good := event.Event{Seq: 1, Thread: "t", Body: named}
		if err := s.Append(t.Context(), good, e); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	if got := stored(t, s, "t", 0); len(got) != 0 {
		t.Errorf("%d events of refused Appends were taken", len(got))
	}
}

func TestAppendRetainsNothing(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, func(c *store.Config) { c.BatchDelay = time.Hour })
	code := int32(1)
	item := event.Item{ID: "i", Type: event.ItemCommand, ExitCode: &code, Images: []string{"before"}}
	mustAppend(t, s,
		event.Event{Seq: 1, Thread: "t", Time: time.Now(), Body: event.ThreadStarted{}},
		event.Event{Seq: 2, Thread: "t", Time: time.Now(), Body: event.ItemCompleted{Item: item}})
	code, item.Images[0] = 2, "after"
	got := stored(t, s, "t", 1)[0].Body.(event.ItemCompleted).Item
	if *got.ExitCode != 1 || got.Images[0] != "before" {
		t.Errorf("a change after Append was stored: %+v, exit code %d", got, *got.ExitCode)
	}
}

func TestFilesArePrivate(t *testing.T) {
	filesOnly(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes are of Unix")
	}
	dir := filepath.Join(t.TempDir(), "home", "data")
	cfg := store.Config{Path: filepath.Join(dir, "threads.db")}
	s := openAt(t, cfg)
	mustAppend(t, s, storetest.Story(event.NewThreadID(), 1)...)
	if _, err := s.PutArtifact(t.Context(), "text/plain", "a.txt", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	lock, err := s.LockThread(t.Context(), event.NewThreadID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Threads(t.Context(), store.Filter{}); err != nil {
		t.Fatal(err)
	}
	state, err := pluginstate.Open(t.Context(), store.Database{}.Config(filepath.Join(dir, "state.db")), filepath.Join(dir, "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Acquire(t.Context(), "p", "l", "h", 0); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(filepath.Dir(dir), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		seen[d.Name()] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"threads.db", "threads.db-wal", "threads.db-shm", "state.db", "artifacts", "locks", "hosts"} {
		if !seen[name] {
			t.Errorf("%s was not there to be looked at", name)
		}
	}
	if err := errors.Join(lock.Release(), state.Close(), s.Close(t.Context())); err != nil {
		t.Error(err)
	}
	// One that others can read becomes private when it is opened.
	if err := os.Chmod(cfg.Path, 0o644); err != nil {
		t.Fatal(err)
	}
	openAt(t, cfg)
	if info, err := os.Stat(cfg.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("after opening: %v, %v", info.Mode(), err)
	}
}

func TestRefuseReads(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.RefuseReads)
	story := storetest.Story(event.NewThreadID(), 2)
	thread := story[0].Thread
	mustAppend(t, s, story...)
	mustBarrier(t, s, story) // writing needs no reads
	ref, err := s.PutArtifact(t.Context(), "text/plain", "a", strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, read := range map[string]func() error{
		"Threads":      func() error { _, err := s.Threads(ctx, store.Filter{}); return err },
		"Thread":       func() error { _, err := s.Thread(ctx, string(thread)); return err },
		"Turns":        func() error { _, err := s.Turns(ctx, thread); return err },
		"Items":        func() error { _, err := s.Items(ctx, thread, ""); return err },
		"Export":       func() error { return s.Export(ctx, thread, new(strings.Builder)) },
		"Runs":         func() error { _, err := s.Runs(ctx, 0); return err },
		"ArtifactInfo": func() error { _, err := s.ArtifactInfo(ctx, ref.SHA256); return err },
		"Retain":       func() error { _, err := s.Retain(ctx, store.Policy{}); return err },
		"Events": func() error {
			for _, err := range s.Events(ctx, thread, 0) {
				return err
			}
			return nil
		},
	} {
		if err := read(); !errors.Is(err, store.ErrReadsRefused) {
			t.Errorf("%s: %v, want %v", name, err, store.ErrReadsRefused)
		}
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	story := storetest.Story(event.NewThreadID(), 1)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	for name, err := range map[string]error{
		"Append":       s.Append(t.Context(), story...),
		"Barrier":      s.Barrier(t.Context(), story[0].Thread, 1),
		"ExecOnWriter": s.ExecOnWriter(t.Context(), store.Edge),
		"Threads":      func() error { _, err := s.Threads(t.Context(), store.Filter{}); return err }(),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v, want %v", name, err, store.ErrClosed)
		}
	}
}

func TestTwoStoresInOneProcessShareADatabase(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	a, b := openAt(t, cfg), openAt(t, cfg)
	errs := make(chan error, 2)
	for _, s := range []*store.Store{a, b} {
		go func() { // owned by this test, which reads errs
			story := storetest.Story(event.NewThreadID(), 20)
			for _, e := range story {
				if err := errors.Join(s.Append(t.Context(), e), s.Barrier(t.Context(), e.Thread, e.Seq)); err != nil {
					errs <- fmt.Errorf("event %d: %w", e.Seq, err)
					return
				}
			}
			errs <- nil
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*store.Store{a, b} {
		threads, err := s.Threads(t.Context(), store.Filter{})
		if err != nil || len(threads) != 2 {
			t.Errorf("%d threads, %v", len(threads), err)
		}
	}
	runs, err := a.Runs(t.Context(), 0)
	if err != nil || len(runs) != 2 || runs[0].PID != os.Getpid() || !runs[0].Ended.IsZero() {
		t.Errorf("runs = %+v, %v", runs, err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if runs, err = a.Runs(t.Context(), 1); err != nil || len(runs) != 1 {
		t.Errorf("runs = %+v, %v", runs, err)
	}
}

func TestConflictWithAnotherWriter(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	a, b := openAt(t, cfg), openAt(t, cfg)
	story, other := storetest.Story("mine", 1), storetest.Story("other", 1)
	mustAppend(t, a, story[:5]...)
	mustBarrier(t, a, story[:5])
	mustAppend(t, b, event.Event{Seq: 6, Thread: "mine", Body: event.ThreadNamed{Name: "by b"}})
	mustBarrier(t, b, []event.Event{{Seq: 6, Thread: "mine"}})

	mustAppend(t, a, story[5:]...) // accepted, and refused when it is written
	mustAppend(t, a, other...)
	err := a.Barrier(t.Context(), "mine", uint64(len(story)))
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Seq != 6 || c.Stored != 6 {
		t.Errorf("barrier = %v, want a conflict at event 6", err)
	}
	if err := a.Append(t.Context(), event.Event{Seq: 12, Thread: "mine", Body: event.ThreadNamed{}}); !errors.As(err, new(*store.ConflictError)) {
		t.Errorf("a later append = %v, want a conflict", err)
	}
	mustBarrier(t, a, other) // other threads go on
	if a.Degraded() != nil {
		t.Errorf("degraded = %v", a.Degraded())
	}
	if got := stored(t, a, "mine", 0); len(got) != 6 {
		t.Errorf("%d events are stored, want 6", len(got))
	}
}

func TestDamagedThreadDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	damaged, good := storetest.Story("damaged", 1), storetest.Story("good", 1)
	mustAppend(t, s, damaged...)
	s = reopen(t, s, cfg)
	if _, err := storetest.SQL(t, cfg).Exec("DELETE FROM threads"); err != nil { // and its events are left
		t.Fatal(err)
	}
	mustAppend(t, s, good[:5]...)
	mustAppend(t, s, damaged...)
	mustAppend(t, s, good[5:]...)
	err := s.Barrier(t.Context(), "damaged", 1)
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Err == nil || c.Thread != "damaged" {
		t.Errorf("barrier = %v, want a conflict", err)
	}
	mustBarrier(t, s, good)
	if s.Degraded() != nil {
		t.Errorf("degraded = %v", s.Degraded())
	}
	if got := stored(t, s, "good", 0); !reflect.DeepEqual(got, good) {
		t.Errorf("%d events are stored, want %d", len(got), len(good))
	}

	// What the error says to do helps.
	var file bytes.Buffer
	if err := s.Export(t.Context(), "damaged", &file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "damaged"); err != nil {
		t.Fatal(err)
	}
	if info, err := s.Import(t.Context(), &file); err != nil || info.Seq != uint64(len(damaged)) {
		t.Errorf("imported %+v, %v", info, err)
	}
	next := event.Event{Seq: uint64(len(damaged)) + 1, Thread: "damaged", Body: event.ThreadNamed{Name: "repaired"}}
	mustAppend(t, s, next)
	mustBarrier(t, s, []event.Event{next})
}

func TestResumedThreadMustContinueAtItsEnd(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	story := storetest.Story("t", 1)
	mustAppend(t, s, story[:4]...)
	s = reopen(t, s, cfg)
	mustAppend(t, s, story[5])
	err := s.Barrier(t.Context(), "t", 6)
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Seq != 6 || c.Stored != 4 {
		t.Errorf("barrier = %v, want a conflict of event 6 with a thread that ends at 4", err)
	}
	s = reopen(t, s, cfg)
	mustAppend(t, s, event.Event{Seq: 2, Thread: "new", Body: event.ThreadNamed{}})
	if err := s.Barrier(t.Context(), "new", 2); !errors.As(err, new(*store.ConflictError)) {
		t.Errorf("a thread that begins with event 2: %v", err)
	}
}
