//go:build linux

package plugin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

func TestReplacingWhileACallRuns(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		h := build(t, configure, func(c *plugin.Config) {
			plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetProbation(50 * time.Millisecond) })
		})
		p := h.add(spec(t, "serve"))
		old := acquire(t, p)
		gate := fifo(t)
		finished := make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := command(t.Context(), old, "gate", gate)
			old.Release()
			finished <- err
		}()
		if err := p.Reload(t.Context(), ""); err != nil {
			t.Fatal(explain(err))
		}
		fresh := acquire(t, p)
		defer fresh.Release()
		if fresh.Generation != 2 || must(t, fresh, "generation", "") != "2" {
			t.Errorf("generation = %d", fresh.Generation)
		}
		if st := p.Status(); st.Draining != 1 || st.Generation != 2 {
			t.Errorf("status = %+v", st)
		}
		select {
		case <-old.Exited():
			t.Fatal("the old process is gone while its call runs")
		default:
		}
		meet(t, gate)
		if err := <-finished; err != nil {
			t.Errorf("the old call: %v", err)
		}
		<-old.Exited()
		must(t, fresh, "echo", "1")
	})
}

func TestAReplacementThatFailsChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		mode, env string
		phase     plugin.Phase
	}{
		"garbage":       {"print", "PRINT=hello\n", plugin.PhaseHandshake},
		"misconfigured": {"serve", "CONFIGURE=refuse", plugin.PhaseConfigure},
		"exits":         {"serve", "DESCRIBE=exit", plugin.PhaseDescribe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			p := h.add(spec(t, "serve"))
			l := acquire(t, p)
			defer l.Release()
			err := p.Replace(t.Context(), spec(t, c.mode, c.env))
			if e, ok := asError(err); !ok || e.Phase != c.phase || e.Generation != 2 {
				t.Fatalf("err = %v", err)
			}
			must(t, l, "echo", "1")
			if st := p.Status(); st.Mode != plugin.ModeReady || st.Generation != 1 || st.Crashes != 0 || st.Draining != 0 {
				t.Errorf("status = %+v", st)
			}
			if got := p.Spec().Env[modeVariable]; got != "serve" {
				t.Errorf("the slot holds %q", got)
			}
		})
	}
}

func TestACrashSoonAfterAReplacementBringsTheOldProcessBack(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve", "VERSION=1.0.0"))
	acquire(t, p).Release()
	if err := p.Replace(t.Context(), spec(t, "serve", "VERSION=1.0.0", "NEW=1")); err != nil {
		t.Fatal(explain(err))
	}
	h.await(plugin.ModeReady)
	h.await(plugin.ModeReady)
	l := acquire(t, p)
	if l.Generation != 2 {
		t.Fatalf("generation = %d", l.Generation)
	}
	_, _ = command(t.Context(), l, "exit", "1")
	l.Release()
	st := h.await(plugin.ModeReady)
	if st.Generation != 1 || !strings.Contains(st.Message, "generation 2 crashed; generation 1 is in use again") {
		t.Errorf("state = %+v", st)
	}
	back := acquire(t, p)
	defer back.Release()
	if back.Generation != 1 {
		t.Errorf("generation = %d", back.Generation)
	}
	must(t, back, "echo", "1")
	if p.Spec().Env["NEW"] != "" {
		t.Error("the slot holds the new spec")
	}
	if st := p.Status(); st.Crashes != 1 || st.LastError == nil {
		t.Errorf("status = %+v", st)
	}
}

func TestAThirdProcessWaitsForTheFirstToEnd(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	first := acquire(t, p)
	first.Release()
	for range 2 {
		if err := p.Reload(t.Context(), ""); err != nil {
			t.Fatal(explain(err))
		}
	}
	select {
	case <-first.Exited():
	default:
		t.Error("three processes at a time")
	}
	l := acquire(t, p)
	defer l.Release()
	if l.Generation != 3 {
		t.Errorf("generation = %d", l.Generation)
	}
}

func TestReloadingRevivesABrokenPlugin(t *testing.T) {
	h := build(t, func(c *plugin.Config) {
		plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetBackoff(0) })
	})
	p := h.add(spec(t, "print", "STATUS=1"))
	for range 3 {
		_, _ = p.Acquire(t.Context())
	}
	if err := p.Replace(t.Context(), spec(t, "serve")); err != nil {
		t.Fatal(explain(err))
	}
	l := acquire(t, p)
	defer l.Release()
	must(t, l, "echo", "1")
}

func TestCloseDuringOtherOperations(t *testing.T) {
	t.Run("a start", func(t *testing.T) {
		t.Parallel()
		h := build(t)
		s, tag := tagged(t, "hang")
		p := h.add(s)
		got := make(chan error, 1)
		go func() { _, err := p.Acquire(context.Background()); got <- err }() // owned by the test: received below
		h.await(plugin.ModeStarting)
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-got; err != plugin.ErrClosed {
			t.Errorf("err = %v", err)
		}
		allGone(t, tag)
	})
	t.Run("a replacement", func(t *testing.T) {
		t.Parallel()
		h := build(t)
		s, tag := tagged(t, "serve")
		p := h.add(s)
		acquire(t, p).Release()
		hang := s
		there := fifo(t)
		hang.Env = map[string]string{modeVariable: "hang", "X": tag, "FIFO": there}
		got := make(chan error, 1)
		go func() { got <- p.Replace(context.Background(), hang) }() // owned by the test: received below
		meet(t, there)                                               // the second process is running
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-got; err == nil {
			t.Error("the replacement worked")
		}
		allGone(t, tag)
	})
	t.Run("a probation", func(t *testing.T) {
		t.Parallel()
		h := build(t)
		s, tag := tagged(t, "serve")
		p := h.add(s)
		l := acquire(t, p)
		defer l.Release()
		if err := p.Reload(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // kill at once
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		allGone(t, tag)
		if _, err := p.Acquire(t.Context()); err != plugin.ErrClosed {
			t.Errorf("err = %v", err)
		}
		if err := p.Reload(t.Context(), ""); err != plugin.ErrClosed {
			t.Errorf("err = %v", err)
		}
		if _, err := h.Add(spec(t, "serve")); err != plugin.ErrClosed {
			t.Errorf("err = %v", err)
		}
	})
}

// A process whose successor starts declared processes ends with its calls: those that it has started would run twice.
func TestReplacingAProcessThatHasOthers(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *plugin.Config) {
		plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetProbation(time.Hour) })
	})
	s := spec(t, "serve")
	exclusive := false
	s.Exclusive = func() bool { return exclusive }
	p := h.add(s)
	old := acquire(t, p)
	exclusive = true
	if err := p.Reload(t.Context(), ""); err != nil {
		t.Fatal(explain(err))
	}
	fresh := acquire(t, p)
	defer fresh.Release()
	select {
	case <-old.Exited():
		t.Fatal("the old process is gone while its call runs")
	default:
	}
	must(t, old, "echo", "1")
	old.Release()
	select {
	case <-old.Exited():
	case <-time.After(time.Minute):
		t.Fatal("the old process is still there")
	}
	must(t, fresh, "echo", "1")
}
