package store_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// health collects what a store says of its health.
type health chan error

func watch(h health) func(*store.Config) {
	return func(c *store.Config) { c.OnDegraded = func(err error) { h <- err } }
}

func (h health) degraded(t *testing.T) error {
	t.Helper()
	err := <-h
	if !errors.As(err, new(*store.DegradedError)) {
		t.Fatalf("told %v, want a DegradedError", err)
	}
	return err
}

func (h health) recovered(t *testing.T) {
	t.Helper()
	if err := <-h; err != nil {
		t.Fatalf("told %v, want nil: the error is reported once", err)
	}
}

func TestDegradedUntilAWriteSucceeds(t *testing.T) {
	t.Parallel()
	h := make(health, 10)
	var fault faultOnDemand
	s := storetest.Open(t, fault.config, watch(h))
	story := storetest.Story(event.NewThreadID(), 3)
	thread := story[0].Thread
	mustAppend(t, s, story[0])
	mustBarrier(t, s, story[:1])
	fault.left.Store(3)

	mustAppend(t, s, story[1:5]...)
	err := s.Barrier(t.Context(), thread, 5)
	if !errors.As(err, new(*store.DegradedError)) || !errors.Is(err, storetest.ErrFault) {
		t.Errorf("barrier = %v, want a DegradedError", err)
	}
	if got := s.Degraded(); !errors.Is(got, storetest.ErrFault) {
		t.Errorf("Degraded = %v although a barrier has failed", got)
	}
	h.degraded(t)
	mustAppend(t, s, story[5:]...) // in memory
	if err := s.ExecOnWriter(t.Context(), store.Edge); !errors.As(err, new(*store.DegradedError)) {
		t.Errorf("ExecOnWriter = %v, want a DegradedError", err)
	}
	h.recovered(t)
	mustBarrier(t, s, story)
	if s.Degraded() != nil {
		t.Errorf("Degraded = %v", s.Degraded())
	}
	if got := stored(t, s, thread, 0); !reflect.DeepEqual(got, story) {
		t.Errorf("%d events are stored, not the %d that were appended", len(got), len(story))
	}
	if len(h) > 0 {
		t.Errorf("told once more: %v", <-h)
	}
}

func TestCommitThatReportsAnError(t *testing.T) {
	t.Parallel()
	h := make(health, 10)
	s := storetest.Open(t, storetest.Faulty(t, "write commits and fails at 1; write commits and fails from 3 to 4"), watch(h))
	story := storetest.Story(event.NewThreadID(), 4)
	mustAppend(t, s, story[:2]...)
	if err := s.Barrier(t.Context(), story[0].Thread, 2); err == nil {
		t.Error("the fault did not reach the first barrier")
	}
	h.degraded(t)
	h.recovered(t) // by the second write
	mustAppend(t, s, story[2:6]...)
	if err := s.Barrier(t.Context(), story[0].Thread, 6); err == nil {
		t.Error("the fault did not reach the barrier")
	}
	h.degraded(t)
	mustAppend(t, s, story[6:]...)
	h.recovered(t)
	mustBarrier(t, s, story)
	if got := stored(t, s, story[0].Thread, 0); !reflect.DeepEqual(got, story) {
		t.Errorf("%d events are stored, not the %d that were appended", len(got), len(story))
	}
}

func TestAFullDisk(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	h := make(health, 10)
	watch(h)(&cfg)
	s := openAt(t, cfg)
	thread := event.NewThreadID()
	next := forever(thread)
	mustAppend(t, s, next())
	if err := s.Barrier(t.Context(), thread, 1); err != nil {
		t.Fatal(err)
	}
	// SQLite treats its own limit as it treats a disk without space; 1 page is what it has. A server is made to say that its
	// disk is full.
	full, free := []string{"PRAGMA max_page_count(1)"}, "PRAGMA max_page_count(1000000)"
	if onServer() {
		full = []string{
			`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`,
			"CREATE TRIGGER full_disk BEFORE INSERT ON events EXECUTE FUNCTION full_disk()",
		}
		free = "DROP TRIGGER full_disk ON events"
	}
	for _, statement := range full {
		if err := s.ExecOnWriter(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var last event.Event
	var err error
	reached := uint64(1)
	for err == nil {
		last = next()
		mustAppend(t, s, last)
		if err = s.Barrier(t.Context(), thread, last.Seq); err == nil {
			reached = last.Seq
		}
	}
	if !database.IsFull(err) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("barrier = %v, want that the disk is full and what to do", err)
	}
	h.degraded(t)
	if n := len(stored(t, s, thread, 0)); uint64(n) < reached {
		t.Errorf("%d events are there, %d were behind a barrier", n, reached)
	}
	if err := s.ExecPastTheQueue(free); err != nil {
		t.Fatal(err)
	}
	h.recovered(t)
	if err := s.Barrier(t.Context(), thread, last.Seq); err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verify(t, cfg, thread, last.Seq)
}

func TestALockedDatabase(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	cfg.BusyWait = 5 * time.Millisecond
	h := make(health, 10)
	watch(h)(&cfg)
	s := openAt(t, cfg)
	story := storetest.Story(event.NewThreadID(), 1)
	mustAppend(t, s, story[0])
	mustBarrier(t, s, story[:1])

	release := hold(t, cfg)
	mustAppend(t, s, story[1:]...)
	err := s.Barrier(t.Context(), story[0].Thread, uint64(len(story)))
	if !database.IsBusy(err) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("barrier = %v, want that another process is in the way", err)
	}
	h.degraded(t)
	if got := stored(t, s, story[0].Thread, 0); len(got) != 1 { // reading goes on
		t.Errorf("%d events are stored", len(got))
	}
	release()
	h.recovered(t)
	mustBarrier(t, s, story)
}

func TestAWriteWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	story := storetest.Story(event.NewThreadID(), 1)
	mustAppend(t, s, story[0])
	mustBarrier(t, s, story[:1])
	release := hold(t, cfg)
	mustAppend(t, s, story[1:]...)
	time.AfterFunc(20*time.Millisecond, release)
	mustBarrier(t, s, story)
	if s.Degraded() != nil {
		t.Errorf("Degraded = %v", s.Degraded())
	}
}

func TestAppendWaitsWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	writing, proceed := make(chan struct{}), make(chan struct{})
	s := storetest.Open(t, func(c *store.Config) {
		c.QueueRows, c.BatchRows = 4, 2
		c.WrapCommit = func(commit func() error) error {
			writing <- struct{}{}
			<-proceed
			return commit()
		}
	})
	next := forever("t")
	mustAppend(t, s, next(), next(), next(), next())
	<-writing
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error)
	waiting := next()
	go func() { result <- s.Append(ctx, waiting) }() // owned by this test, which reads result
	select {
	case err := <-result:
		t.Fatalf("Append = %v with a full queue", err)
	case <-time.After(20 * time.Millisecond):
	}
	enough := errors.New("enough")
	cancel(enough)
	if err := <-result; !errors.Is(err, enough) {
		t.Errorf("Append = %v, want the cause of the end of its context", err)
	}
	go func() { // owned by this test: ends when the store does not write any more
		for range writing {
			proceed <- struct{}{}
		}
	}()
	proceed <- struct{}{}
	mustAppend(t, s, waiting) // nothing of it was taken before
	if err := s.Barrier(t.Context(), "t", 5); err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	close(writing)
}

func TestDegradedStoreIsFull(t *testing.T) {
	t.Parallel()
	h := make(health, 10)
	open := make(chan struct{})
	s := storetest.Open(t, watch(h), func(c *store.Config) {
		c.KeepRows = 8
		c.WrapCommit = func(commit func() error) error {
			select {
			case <-open:
				return commit()
			default:
				return storetest.ErrFault
			}
		}
	})
	next := forever("t")
	mustAppend(t, s, next())
	_ = s.Barrier(t.Context(), "t", 1)
	h.degraded(t)
	var e event.Event
	var err error
	n := 1
	for err == nil {
		e = next()
		n++
		err = s.Append(t.Context(), e)
	}
	if full, ok := errors.AsType[*store.FullError](err); !ok || full.Waiting != 8 || n != 9 {
		t.Errorf("event %d: %v, want a FullError with 8 waiting", n, err)
	}
	close(open)
	h.recovered(t)
	mustAppend(t, s, e)
	if err := s.Barrier(t.Context(), "t", e.Seq); err != nil {
		t.Error(err)
	}
	if got := stored(t, s, "t", 0); len(got) != n {
		t.Errorf("%d events are stored, want %d", len(got), n)
	}
}

// faultOnDemand lets writes fail from the moment it is armed: how many batches came before depends on the machine's load.
// A negative number of failures is for ever.
type faultOnDemand struct{ left atomic.Int64 }

func (f *faultOnDemand) config(c *store.Config) {
	c.WrapCommit = func(commit func() error) error {
		switch left := f.left.Load(); {
		case left < 0:
			return storetest.ErrFault
		case left > 0:
			f.left.Add(-1)
			return storetest.ErrFault
		}
		return commit()
	}
}

func TestOnDegradedMayUseTheStore(t *testing.T) {
	t.Parallel()
	var s *store.Store
	said := make(chan error, 2)
	opened := make(chan struct{})
	var fault faultOnDemand
	s = storetest.Open(t, fault.config, func(c *store.Config) {
		seq := uint64(0)
		c.OnDegraded = func(err error) {
			<-opened
			text := "works"
			if err != nil {
				text = err.Error()
			}
			seq++
			said <- s.Append(context.Background(), event.Event{Seq: seq, Thread: "host", Body: event.Notice{Text: text}})
		}
	})
	close(opened)
	story := storetest.Story("t", 1)
	mustAppend(t, s, story[0])
	mustBarrier(t, s, story[:1])
	fault.left.Store(1)
	mustAppend(t, s, story[1:]...)
	if err := errors.Join(<-said, <-said); err != nil {
		t.Fatal(err)
	}
	mustBarrier(t, s, story)
	if got := stored(t, s, "host", 0); len(got) != 2 || !strings.Contains(got[0].Body.(event.Notice).Text, "fault of the test") {
		t.Errorf("notices: %+v", got)
	}
}

func TestCloseReportsUnwrittenEvents(t *testing.T) {
	t.Parallel()
	var fault faultOnDemand
	s := storetest.Open(t, fault.config)
	story := storetest.Story("t", 1)
	mustAppend(t, s, story[0])
	mustBarrier(t, s, story[:1])
	fault.left.Store(-1)
	mustAppend(t, s, story[1:]...)
	err := s.Close(t.Context())
	if !errors.Is(err, storetest.ErrFault) || !strings.Contains(err.Error(), "10 events were not written") {
		t.Errorf("Close = %v", err)
	}
}

func TestCloseGivesUpWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	cfg.BusyWait = time.Hour
	s := openAt(t, cfg)
	mustAppend(t, s, storetest.Story("t", 1)...)
	mustBarrier(t, s, []event.Event{{Thread: "t", Seq: 11}})
	hold(t, cfg)
	mustAppend(t, s, event.Event{Thread: "t", Seq: 12, Body: event.ThreadNamed{Name: "n"}})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := s.Close(ctx); !errors.Is(err, enough) || !strings.Contains(err.Error(), "1 events were not written") {
		t.Errorf("Close = %v", err)
	}
}

func TestCancelledChange(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	cfg.BusyWait = time.Hour
	s := openAt(t, cfg)
	story := storetest.Story("t", 1)
	mustAppend(t, s, story[0])
	mustBarrier(t, s, story[:1])
	release := hold(t, cfg)
	enough := errors.New("enough")
	for _, before := range [][]event.Event{nil, story[1:]} { // at once, and behind a batch that waits
		mustAppend(t, s, before...)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(enough) })
		if err := s.ExecOnWriter(ctx, store.Edge); !errors.Is(err, enough) {
			t.Errorf("ExecOnWriter = %v", err)
		}
	}
	release()
	mustBarrier(t, s, story)
	if edges := dump(t, storetest.SQL(t, cfg), "SELECT child FROM agent_edges"); len(edges) > 0 {
		t.Errorf("edges = %v", edges)
	}
}
