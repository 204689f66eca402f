package hub_test

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// lock holds a thread's lock as a process does that can't be reached, because it uses another home folder.
func lock(t *testing.T, cfg hub.Config, id event.ThreadID) {
	t.Helper()
	s, err := store.Open(t.Context(), cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	held, err := s.LockThread(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := held.Release(); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAThreadThatCannotBeReached(t *testing.T) {
	home := newHome(t, recite)
	cfg := configuration(home, binaries(t))
	h := open(t, cfg)
	id := start(t, h, hub.StartParams{}).ID()
	if err := h.Unload(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reach(t.Context(), id); code(err) != hub.Closed {
		t.Errorf("no process runs it: %v", err)
	}
	lock(t, cfg, id)
	if th, err := h.Resume(t.Context(), id, hub.ResumeParams{}); code(err) != hub.Locked {
		t.Errorf("resumed a locked thread: %v, %v", th, err)
	}
}
