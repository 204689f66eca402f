//go:build linux

package plugin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

func TestCrashPolicy(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		at   []time.Duration
		want []bool
	}{
		{[]time.Duration{0, m, 2 * m}, []bool{false, false, true}},
		{[]time.Duration{0, m, 6 * m}, []bool{false, false, false}},
		{[]time.Duration{0, m, 5 * m}, []bool{false, false, true}}, // the window includes its end
		{[]time.Duration{0, m, 6 * m, 6*m + 1}, []bool{false, false, false, false}},
		{[]time.Duration{0, 4 * m, 8 * m, 8*m + 1}, []bool{false, false, false, true}},
	} {
		if got := plugin.Crashes(c.at...); !slices.Equal(got, c.want) {
			t.Errorf("crashes at %v: broken = %v, want %v", c.at, got, c.want)
		}
	}
}

func TestDelaysBeforeARestart(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		readyFor, want []time.Duration
	}{
		{[]time.Duration{ms, ms, ms, ms, ms}, []time.Duration{0, 250 * ms, time.Second, 4 * time.Second, 4 * time.Second}},
		{[]time.Duration{ms, ms, time.Minute, ms}, []time.Duration{0, 250 * ms, 0, 250 * ms}}, // a minute without a crash resets the delay
		{[]time.Duration{ms, time.Minute - 1, ms}, []time.Duration{0, 250 * ms, time.Second}},
		{[]time.Duration{0, 0}, []time.Duration{0, 250 * ms}}, // never ready: a failed start
	} {
		if got := plugin.Delays(c.readyFor...); !slices.Equal(got, c.want) {
			t.Errorf("ready for %v: delays = %v, want %v", c.readyFor, got, c.want)
		}
	}
}

func TestThreeFailuresBreakTheSlotUntilReload(t *testing.T) {
	h := build(t, func(c *plugin.Config) {
		plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetBackoff(0, time.Millisecond) })
	})
	p := h.add(spec(t, "print", "PRINT_ERR=no display\n", "STATUS=3"))
	for i := range 3 {
		if _, err := p.Acquire(t.Context()); err == nil || strings.Contains(err.Error(), "no longer restarted") {
			t.Fatalf("start %d: %v", i+1, err)
		}
	}
	if st := p.Status(); st.Mode != plugin.ModeBroken || st.Starts != 3 || st.Crashes != 3 {
		t.Fatalf("status = %+v", st)
	}
	_, err := p.Acquire(t.Context())
	e, ok := asError(err)
	if !ok || !strings.Contains(e.Error(), "it failed 3 times within 5m0s and is no longer restarted: it ended without a handshake") ||
		!strings.Contains(e.Next, "gantry plugin reload w") || len(e.StderrTail) == 0 || e.StderrTail[0] != "no display" {
		t.Errorf("err = %+v", e)
	}
	if got := p.Status().Starts; got != 3 {
		t.Errorf("a broken plugin was started: %d", got)
	}
	e, ok = asError(p.Reload(t.Context(), ""))
	if !ok || e.Generation != 4 || strings.Contains(e.Error(), "no longer restarted") {
		t.Errorf("on a reload: %v", e)
	}
}

func TestTheNextCallWaitsForTheDelay(t *testing.T) {
	const delay = 120 * time.Millisecond
	h := build(t, func(c *plugin.Config) {
		plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetBackoff(delay) })
	})
	p := h.add(spec(t, "serve"))
	l := acquire(t, p)
	_, _ = command(t.Context(), l, "exit", "1")
	<-l.Exited()
	crashed := time.Now()
	l.Release()
	h.await(plugin.ModeCrashed)
	l = acquire(t, p)
	if took := time.Since(crashed); took < delay-20*time.Millisecond {
		t.Errorf("started again after %v", took)
	}
	l.Release()
}
