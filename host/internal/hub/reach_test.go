package hub_test

import (
	"path/filepath"
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

// An ephemeral hub continues copies, and changes nothing that is stored.
func TestCopiesOfStoredThreads(t *testing.T) {
	home := newHome(t, recite)
	cfg := configuration(home, binaries(t))
	stored := open(t, cfg)
	original := start(t, stored, hub.StartParams{Name: "mine"})
	ask(t, original, "one")
	before, err := stored.Info(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Ephemeral = true
	h := open(t, cfg)
	in := hub.Workspace{Dir: home, Ephemeral: true}
	if _, err := h.Resume(t.Context(), original.ID(), hub.ResumeParams{Workspace: in}); code(err) != hub.Locked {
		t.Errorf("copied with its ID while it runs: %v", err)
	}
	fork, err := h.Resume(t.Context(), original.ID(), hub.ResumeParams{Workspace: in, Fork: &hub.Fork{Through: "1", Name: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	if fork.ID() == original.ID() || !fork.Ephemeral() {
		t.Errorf("fork %s, ephemeral %v", fork.ID(), fork.Ephemeral())
	}
	if end := ask(t, fork, "two"); end.LastMessage != "heard two" {
		t.Errorf("end %+v", end)
	}
	if err := stored.Unload(t.Context(), original.ID()); err != nil {
		t.Fatal(err)
	}
	th, err := h.Resume(t.Context(), original.ID(), hub.ResumeParams{Workspace: in})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.Resume(t.Context(), original.ID(), hub.ResumeParams{Workspace: in}); err != nil || again != th {
		t.Errorf("resumed again: %v, %v", again, err)
	}
	if end := ask(t, th, "three"); th.ID() != original.ID() || end.LastMessage != "heard three" {
		t.Errorf("%s: end %+v", th.ID(), end)
	}
	after, err := stored.Info(t.Context(), "mine")
	if err != nil || after.Seq < before.Seq || after.Turns != 1 {
		t.Errorf("the stored thread was %+v and is %+v, %v", before, after, err)
	}
	if all, err := stored.List(t.Context(), hub.Filter{}); err != nil || len(all) != 1 {
		t.Errorf("stored are %v, %v", all, err)
	}
}

// An ephemeral hub needs no home folder.
func TestEphemeralHubWithoutStore(t *testing.T) {
	home := newHome(t, recite)
	cfg := configuration(home, binaries(t))
	cfg.Ephemeral = true
	cfg.Store.Path = filepath.Join(home, "gantry.hcl", "threads.db") // below a file
	h := open(t, cfg)
	th := start(t, h, hub.StartParams{Workspace: hub.Workspace{Ephemeral: true}})
	if end := ask(t, th, "one"); end.LastMessage != "heard one" {
		t.Errorf("end %+v", end)
	}
	if _, err := h.List(t.Context(), hub.Filter{}); err == nil {
		t.Error("listed threads of no store")
	}
	if _, err := h.Start(t.Context(), hub.StartParams{Workspace: hub.Workspace{Dir: home}}); err == nil {
		t.Error("stored a thread nowhere")
	}
}
