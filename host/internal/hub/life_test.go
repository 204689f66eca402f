package hub_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"pgregory.net/rapid"
)

// Whatever clients do with threads, and whenever the hub closes: followers see every stored event once and in order, requests fail only
// in ways that a client can handle, and nothing is left running, which goleak checks.
func TestLife(t *testing.T) {
	home, bin := newHome(t, recite), binaries(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	trustedProject(t, home, dirs[2])
	var known []event.ThreadID // of earlier rounds
	rapid.Check(t, func(rt *rapid.T) {
		cfg := configuration(home, bin)
		cfg.IdleTimeout = time.Duration(rapid.SampledFrom([]int{1, 20, 3_600_000}).Draw(rt, "idle")) * time.Millisecond
		h, err := hub.New(t.Context(), cfg)
		if err != nil {
			rt.Fatal(err)
		}
		l := &life{t: t, h: h, dirs: dirs, ids: slices.Clone(known)}
		changes := h.Watch()
		l.work.Go(func() {
			for {
				if _, err := changes.Next(t.Context()); err != nil {
					l.allow("watch", err, hub.Closed)
					return
				}
			}
		})
		ops := rapid.SampledFrom([]string{"start", "start", "resume", "follow", "follow", "submit", "submit", "slow", "interrupt", "leave", "unload", "archive", "rename", "move"})
		var clients sync.WaitGroup
		for range rapid.IntRange(1, 4).Draw(rt, "clients") {
			plan := rapid.SliceOfN(ops, 1, 12).Draw(rt, "plan")
			dir := rapid.SampledFrom(dirs).Draw(rt, "dir")
			clients.Go(func() { l.client(dir, plan) })
		}
		if rapid.Bool().Draw(rt, "patient") {
			clients.Wait() // otherwise the hub closes while they are at work
		}
		if err := h.Close(); err != nil {
			rt.Error(err)
		}
		clients.Wait()
		l.work.Wait()
		known = l.ids
	})
}

// life is what several clients share.
type life struct {
	t    *testing.T
	h    *hub.Hub
	dirs []string
	work sync.WaitGroup // readers of events, which end with the threads

	mu  sync.Mutex
	ids []event.ThreadID
}

// allow fails the test unless an error has one of the codes.
func (l *life) allow(what string, err error, codes ...hub.Code) {
	if err != nil && !slices.Contains(codes, code(err)) {
		l.t.Errorf("%s: %v (code %q)", what, err, code(err))
	}
}

func (l *life) client(dir string, plan []string) {
	ctx := l.t.Context()
	var th *hub.Thread
	var follows []*hub.Events
	for i, op := range plan {
		if th == nil && op != "resume" {
			op = "start"
		}
		var err error
		switch op {
		case "start":
			var started *hub.Thread
			if started, err = l.h.Start(ctx, hub.StartParams{Workspace: hub.Workspace{Dir: dir}}); err == nil {
				th = started
				l.mu.Lock()
				l.ids = append(l.ids, th.ID())
				l.mu.Unlock()
			}
			l.allow(op, err, hub.Closed)
		case "resume":
			l.mu.Lock()
			var id event.ThreadID
			if len(l.ids) > 0 {
				id = l.ids[i%len(l.ids)]
			}
			l.mu.Unlock()
			if id == "" {
				continue
			}
			resumed, err := l.h.Resume(ctx, id, hub.ResumeParams{})
			if err == nil {
				th = resumed
			}
			l.allow(op, err, hub.Closed, hub.IsArchived)
		case "follow":
			after := uint64(0)
			if i%3 == 0 {
				after = hub.FromNow
			}
			evs, err := th.Follow(ctx, after, hub.Policy(1+i%2))
			l.allow(op, err, hub.Closed)
			if err == nil {
				follows = append(follows, evs)
				l.work.Go(func() { l.read(ctx, evs, after) })
			}
		case "submit", "slow":
			_, err := th.Submit(ctx, hub.Submission{Input: text(op), Durable: i%2 == 0})
			l.allow(op, err, hub.Closed, hub.IsArchived)
		case "interrupt":
			l.allow(op, th.Interrupt(ctx, ""), hub.NoTurn, hub.Closed)
		case "move":
			// Under the same configuration it waits for the turn, which may be a slow one.
			bound, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			if err := th.Configure(bound, event.Settings{Cwd: l.dirs[i%len(l.dirs)]}); bound.Err() == nil {
				l.allow(op, err, hub.Closed, hub.Busy, hub.IsArchived)
			}
			cancel()
		case "leave":
			if len(follows) > 0 {
				follows[0].Close()
				follows = follows[1:]
			}
		case "unload":
			l.allow(op, l.h.Unload(ctx, th.ID()), hub.Closed)
		case "archive":
			if l.h.Archive(ctx, th.ID()) == nil {
				// Another client may have deleted, loaded or archived it in the meantime, so this may fail in many ways.
				_ = l.h.Unarchive(ctx, th.ID())
			}
		case "rename":
			_ = l.h.Rename(ctx, th.ID(), "name") // as above
		}
	}
	for i, evs := range follows {
		if i%2 == 0 {
			evs.Close()
		}
	}
}

// read checks the events of a thread until it or the reader ends.
func (l *life) read(ctx context.Context, evs *hub.Events, last uint64) {
	defer evs.Close()
	for {
		e, err := evs.Next(ctx)
		if err != nil {
			l.allow("read", err, hub.Closed)
			return
		}
		if e.Seq == 0 {
			continue
		}
		if e.Seq != last+1 && last != hub.FromNow {
			l.t.Errorf("thread %s: event %d after %d", e.Thread, e.Seq, last)
			return
		}
		last = e.Seq
	}
}
