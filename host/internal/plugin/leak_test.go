//go:build linux

package plugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// holdings counts the resources that a process can leak.
type holdings struct {
	descriptors []string
	children    int
	threads     int
}

func holds(t *testing.T) (h holdings) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.Contains(link, "/fd") && !strings.Contains(link, "eventpoll") && !strings.Contains(link, "eventfd") {
			h.descriptors = append(h.descriptors, e.Name()+"="+link)
		}
	}
	tasks, _ := os.ReadDir("/proc/self/task")
	h.threads = len(tasks)
	for _, task := range tasks {
		b, _ := os.ReadFile(filepath.Join("/proc/self/task", task.Name(), "children"))
		h.children += len(strings.Fields(string(b)))
	}
	return h
}

// Not parallel, because it counts the resources of the whole process.
func TestNothingLeaks(t *testing.T) {
	round := func(scan bool) {
		h := build(t, func(c *plugin.Config) {
			c.NoNamespaces = scan
			plugin.SetTiming(c, func(tm *plugin.Timing) {
				tm.SetStop(20*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)
				tm.SetHealth(20*time.Millisecond, 20*time.Millisecond, 5*time.Second) // no plugin hangs, but the machine may be slow
				tm.SetAbort(20 * time.Millisecond)
				tm.SetProbation(time.Millisecond)
			})
		}, withServices(make(chan plugin.Identity, 1)))
		label := 0
		slot := func(mode string, env ...string) *plugin.Slot {
			s := spec(t, mode, env...)
			label++
			s.Label = fmt.Sprint("p", label)
			s.StartTimeout = 5 * time.Second
			if mode == "hang" || mode == "deaf" || mode == "silent" {
				s.StartTimeout = 100 * time.Millisecond
			}
			return h.add(s)
		}
		for _, c := range [][]string{
			{"print", "PRINT=hello\n"}, {"print", "STATUS=3"}, {"hang"}, {"deaf"}, {"silent"}, {"noise", "LINES=21"},
			{"line", "LINE=1|1|unix|{dir}/p|grpc"}, {"serve", "DESCRIBE=exit"}, {"serve", "CONFIGURE=refuse"}, {"serve", "CONFIGURE=exit"},
		} {
			if _, err := slot(c[0], c[1:]...).Acquire(t.Context()); err == nil {
				t.Errorf("%v started", c)
			}
		}
		for _, mode := range []string{"serve", "bare", "stubborn"} {
			p := slot(mode)
			l := acquire(t, p)
			must(t, l, "child", "")
			must(t, l, "child", "setsid")
			if err := p.Reload(t.Context(), ""); err != nil {
				t.Error(explain(err))
			}
			l.Release()
			crashing := acquire(t, p)
			_, _ = command(t.Context(), crashing, "exit", "1")
			crashing.Release()
			again := acquire(t, p)
			must(t, again, "echo", "1")
			again.Release()
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(h.dir, "h*")); len(left) > 0 {
			t.Errorf("folders are left: %v", left)
		}
	}
	round(false) // the runtime and libraries allocate some resources once
	round(true)
	before := holds(t)
	for range 2 {
		round(false)
		round(true)
	}
	if err := goleak.Find(goleak.IgnoreCurrent()); err != nil {
		t.Error(err)
	}
	runtime.GC()
	after := holds(t)
	if after.children != before.children {
		t.Errorf("children: %d before, %d after", before.children, after.children)
	}
	if len(after.descriptors) > len(before.descriptors) {
		t.Errorf("descriptors:\nbefore %q\n after %q", before.descriptors, after.descriptors)
	}
}

func TestStartingAndStoppingFiftyTimes(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	acquire(t, p).Release()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := holds(t)
	for range 50 {
		l := acquire(t, p)
		must(t, l, "echo", "1")
		l.Release()
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after := holds(t)
	if len(after.descriptors) > len(before.descriptors) || after.children != before.children {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if got := p.Status(); got.Starts != 51 || got.Crashes != 0 || got.Generation != 51 {
		t.Errorf("status = %+v", got)
	}
}
