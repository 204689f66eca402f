//go:build linux

package plugin_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

func TestCallersShareOneStart(t *testing.T) {
	t.Run("that works", func(t *testing.T) {
		h := build(t)
		p := h.add(spec(t, "serve"))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				l, err := p.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if l.Generation != 1 {
					t.Errorf("generation = %d", l.Generation)
				}
				l.Release()
				l.Release() // has no effect
			})
		}
		wg.Wait()
		if st := p.Status(); st.Starts != 1 || st.Calls != 0 {
			t.Errorf("status = %+v", st)
		}
	})
	t.Run("that fails", func(t *testing.T) {
		h := build(t)
		s := spec(t, "hang")
		s.StartTimeout = 400 * time.Millisecond
		p := h.add(s)
		errs := make(chan error, 5)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { _, err := p.Acquire(t.Context()); errs <- err })
		}
		wg.Wait()
		first := <-errs
		for range 4 {
			if err := <-errs; err != first {
				t.Errorf("another error: %v, %v", err, first)
			}
		}
		if st := p.Status(); st.Starts != 1 {
			t.Errorf("starts = %d", st.Starts)
		}
	})
}

func TestACallerCanGiveUpWhileOthersGoOn(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	cancel(gone)
	if _, err := p.Acquire(ctx); !errors.Is(err, gone) {
		t.Errorf("err = %v", err)
	}
	short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	s := spec(t, "hang")
	s.Label = "slow"
	s.StartTimeout = 500 * time.Millisecond
	slow := h.add(s)
	if _, err := slow.Acquire(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	acquire(t, p).Release()
}

func TestWarming(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	p.Warm()
	h.await(plugin.ModeReady)
	l := acquire(t, p)
	defer l.Release()
	if l.Generation != 1 {
		t.Errorf("generation = %d", l.Generation)
	}
}

func TestWhatASupervisorRefuses(t *testing.T) {
	h := build(t)
	h.add(spec(t, "serve"))
	for name, c := range map[string]struct {
		change func(*plugin.Spec)
		says   string
	}{
		"the same label":       {func(s *plugin.Spec) { s.Label = "w" }, "the label is already used by gantry.hcl:14"},
		"a path as a label":    {func(s *plugin.Spec) { s.Label = "../x" }, "label"},
		"no label":             {func(s *plugin.Spec) { s.Label = "" }, "label"},
		"no path":              {func(s *plugin.Spec) { s.Path = "" }, "no path"},
		"a relative path":      {func(s *plugin.Spec) { s.Path = "bin/x" }, "not absolute"},
		"an unknown transport": {func(s *plugin.Spec) { s.Transport = "tcp" }, "unknown transport"},
		"a negative limit":     {func(s *plugin.Spec) { s.Limits.Pids = -1 }, "negative"},
		"LD_PRELOAD":           {func(s *plugin.Spec) { s.Env = map[string]string{"LD_PRELOAD": "x.so"} }, "unsafe_env"},
	} {
		s := spec(t, "serve")
		s.Label = "other"
		c.change(&s)
		_, err := h.Add(s)
		if e, ok := asError(err); !ok || !strings.Contains(e.Error(), c.says) || e.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := len(h.Slots()); got != 1 {
		t.Errorf("%d slots", got)
	}
	if h.Slot("w") == nil || h.Slot("other") != nil {
		t.Error("slots by label")
	}
	if _, err := plugin.New(plugin.Config{DataDir: "relative"}); err == nil {
		t.Error("a relative folder was accepted")
	}
}

func TestTwoHostsInOneProcess(t *testing.T) {
	a, b := build(t), build(t)
	la, lb := acquire(t, a.add(spec(t, "serve"))), acquire(t, b.add(spec(t, "serve")))
	defer lb.Release()
	la.Release()
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	must(t, lb, "echo", "1")
}

func TestNothingIsStartedBeforeItIsNeeded(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	if st := p.Status(); st.Starts != 0 || st.State != p.State() || p.State() != (plugin.State{Plugin: "w", Mode: plugin.ModeStopped}) {
		t.Errorf("status = %+v", st)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
