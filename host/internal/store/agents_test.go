package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// family stores a root with an agent that has an agent, and a thread beside it.
func family(t *testing.T, s *store.Store) (root, agent, below, other event.ThreadID) {
	t.Helper()
	start := func(parent event.ThreadID, age time.Duration) event.ThreadID {
		b := event.ThreadStarted{Cwd: "/", Model: "m", Source: "exec"}
		if parent != "" {
			b.Source, b.Parent = event.SourceAgent, parent
		}
		id := event.NewThreadID()
		if err := s.Append(t.Context(), event.Event{Seq: 1, Thread: id, Time: time.Now().Add(-age), Body: b}); err != nil {
			t.Fatal(err)
		}
		if err := s.Barrier(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		return id
	}
	root = start("", 0)
	agent = start(root, 100*time.Hour)
	below = start(agent, 100*time.Hour)
	return root, agent, below, start("", 100*time.Hour)
}

func threadsIn(t *testing.T, s *store.Store) (ids []event.ThreadID) {
	t.Helper()
	infos, err := s.Threads(t.Context(), store.Filter{IncludeWorkers: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}

// A tree of agents is deleted as one, or not at all.
func TestDeleteTree(t *testing.T) {
	s := storetest.Open(t)
	root, agent, below, other := family(t, s)
	lock, err := s.LockThread(t.Context(), below)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), root); !errors.As(err, new(*store.LockedError)) {
		t.Fatalf("an agent runs: %v", err)
	}
	if n := len(threadsIn(t, s)); n != 4 {
		t.Fatalf("%d threads are left", n)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	r, err := s.Delete(t.Context(), root)
	if err != nil || !slices.Equal(r.Threads, []event.ThreadID{root, agent, below}) {
		t.Fatalf("deleted %v: %v", r.Threads, err)
	}
	if left := threadsIn(t, s); !slices.Equal(left, []event.ThreadID{other}) {
		t.Errorf("left: %v", left)
	}
}

// Agents are kept as long as their root, however old they are, and are not listed with the threads of the user.
func TestRetainTree(t *testing.T) {
	s := storetest.Open(t)
	root, agent, below, other := family(t, s)
	infos, err := s.Threads(t.Context(), store.Filter{})
	if err != nil || len(infos) != 2 {
		t.Errorf("%d threads are listed: %v", len(infos), err)
	}
	r, err := s.Retain(t.Context(), store.Policy{MaxAge: time.Hour})
	if err != nil || !slices.Equal(r.Threads, []event.ThreadID{other}) {
		t.Fatalf("removed %v: %v", r.Threads, err)
	}
	want := []event.ThreadID{root, agent, below}
	slices.Sort(want)
	if left := threadsIn(t, s); !slices.Equal(left, want) {
		t.Errorf("left: %v", left)
	}
}
