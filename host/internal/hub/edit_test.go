package hub_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// stored returns a thread with one turn that no process runs.
func stored(t *testing.T, h *hub.Hub) event.ThreadID {
	t.Helper()
	th := start(t, h, hub.StartParams{})
	ask(t, th, "one")
	if err := h.Unload(t.Context(), th.ID()); err != nil {
		t.Fatal(err)
	}
	return th.ID()
}

// beside runs f, and concurrently loads a thread again and again. It returns the errors of the loads, and the one of f.
func beside(t *testing.T, h *hub.Hub, id event.ThreadID, f func() error) (loads []error, err error) {
	t.Helper()
	begun, done := make(chan struct{}), make(chan struct{})
	var loading sync.WaitGroup
	loading.Go(func() {
		for first := true; ; first = false {
			_, err := h.Resume(t.Context(), id, hub.ResumeParams{})
			loads = append(loads, err)
			if err == nil {
				err = h.Unload(t.Context(), id)
				loads = append(loads, err)
			}
			if first {
				close(begun)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	<-begun
	err = f()
	close(done)
	loading.Wait()
	return loads, err
}

// A thread is archived, or deleted, while another client loads and unloads it. Afterwards nobody runs it.
func TestTheLastChangeWhileLoading(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	ctx := t.Context()
	for what, c := range map[string]struct {
		change func(context.Context, event.ThreadID) error
		then   hub.Code // of loading it
	}{"archive": {h.Archive, hub.IsArchived}, "delete": {h.Delete, hub.NotFound}} {
		for range 20 {
			id := stored(t, h)
			loads, err := beside(t, h, id, func() error { return c.change(ctx, id) })
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for _, err := range loads {
				if is := code(err); is != "" && is != c.then && is != hub.Closed {
					t.Errorf("%s: loading: %v (code %q)", what, err, is)
				}
			}
			if _, err := h.Resume(ctx, id, hub.ResumeParams{}); code(err) != c.then {
				t.Errorf("%s: loaded afterwards: %v", what, err)
			}
			if got := h.Loaded(); slices.Contains(got, id) {
				t.Errorf("%s: it still runs", what)
			}
		}
	}
}

// What a client changes in a thread while another one loads and unloads it is in the log once.
func TestChangesWhileLoadingAndUnloading(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	ctx := t.Context()
	id := stored(t, h)
	const rounds = 30
	for round := range rounds {
		loads, err := beside(t, h, id, func() error {
			entry := hub.Queued{ID: event.NewItemID(), Parts: []llm.Part{&llm.Text{Text: fmt.Sprint(round)}}}
			if _, err := h.ChangeQueue(ctx, id, hub.QueueChange{Op: hub.QueueAdd, Entry: &entry}); err != nil {
				return fmt.Errorf("queue: %w", err)
			}
			if _, err := h.Queue(ctx, id); err != nil {
				return fmt.Errorf("read the queue: %w", err)
			}
			if _, err := h.Fork(ctx, id, hub.Fork{}); err != nil {
				return fmt.Errorf("fork: %w", err)
			}
			return h.Rename(ctx, id, fmt.Sprint(round))
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range loads {
			if err != nil && code(err) != hub.Closed {
				t.Errorf("loading: %v", err)
			}
		}
	}
	renamed, added := 0, 0
	for e, err := range h.Events(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case event.ThreadNamed:
			renamed++
		case event.FeatureChanged:
			if b.Feature == event.QueueFeature {
				added++
			}
		}
	}
	if renamed != rounds || added != rounds {
		t.Errorf("%d names and %d entries of the queue, want %d", renamed, added, rounds)
	}
}

// Of several clients that archive a thread, or restore it, one does.
func TestOneClientArchives(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	id := stored(t, h)
	for round := range 10 {
		change, refused := h.Archive, hub.IsArchived
		if round%2 == 1 {
			change, refused = h.Unarchive, hub.NotFound
		}
		errs := make([]error, 8)
		var clients sync.WaitGroup
		for i := range errs {
			clients.Go(func() { errs[i] = change(t.Context(), id) })
		}
		clients.Wait()
		done := 0
		for _, err := range errs {
			switch code(err) {
			case "":
				done++
			case refused:
			default:
				t.Error(err)
			}
		}
		if done != 1 {
			t.Errorf("round %d: %d clients did it", round, done)
		}
	}
}

// Changes go on while other processes take a thread and end.
func TestChangesWhileOtherProcessesTakeTheThread(t *testing.T) {
	home := newHome(t, recite)
	h := open(t, configuration(home, binaries(t)))
	id := stored(t, h)
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := 0; ; n++ {
			began := time.Now()
			if err := h.Rename(t.Context(), id, fmt.Sprint(n)); err != nil && code(err) != hub.Closed { // the owner has just ended
				t.Errorf("rename %d: %v", n, err)
				return
			}
			// The thread is free most of the time, so that the other process finds it so.
			for took := time.Since(began); time.Since(began) < 4*took; {
				if _, err := h.Info(t.Context(), string(id)); err != nil {
					t.Errorf("info: %v", err)
					return
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 5 {
		other(t, home, id).stop(t)
	}
	close(done)
	changing.Wait()
}

// Callers that continue a copy of a thread in an ephemeral workspace get the same copy. A fork there is one of what the thread is now.
func TestEphemeralCopies(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	ctx := t.Context()
	id := stored(t, h)
	in := hub.Workspace{Dir: t.TempDir(), Ephemeral: true}
	copies := make([]*hub.Thread, 4)
	var clients sync.WaitGroup
	for i := range copies {
		clients.Go(func() {
			var err error
			if copies[i], err = h.Resume(ctx, id, hub.ResumeParams{Workspace: in}); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	for _, c := range copies {
		if c != copies[0] {
			t.Errorf("several copies: %v", copies)
		}
	}
	if err := h.Delete(ctx, id); err != nil { // the copy
		t.Error(err)
	}
	if info, err := h.Info(ctx, string(id)); err != nil || info.Turns != 1 {
		t.Errorf("after the end of the copy: %+v, %v", info, err)
	}

	th, err := h.Resume(ctx, id, hub.ResumeParams{})
	if err != nil {
		t.Fatal(err)
	}
	in.Dir = t.TempDir()
	for turns := 1; turns <= 3; turns++ {
		fork, err := h.Resume(ctx, id, hub.ResumeParams{Workspace: in, Fork: &hub.Fork{}})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := h.Info(ctx, string(fork.ID())); err != nil || info.Turns != turns || info.ForkedFrom != id {
			t.Errorf("fork %+v, %v; want %d turns", info, err, turns)
		}
		again, err := h.Resume(ctx, fork.ID(), hub.ResumeParams{Workspace: in, Fork: &hub.Fork{Through: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := h.Info(ctx, string(again.ID())); err != nil || info.Turns != 1 || info.ForkedFrom != fork.ID() {
			t.Errorf("fork of a fork %+v, %v", info, err)
		}
		ask(t, th, "more")
	}
	if list, err := h.List(ctx, hub.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("stored: %+v, %v", list, err)
	}
}
