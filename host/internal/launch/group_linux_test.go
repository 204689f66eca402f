package launch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/cgroup"
	"github.com/gantry-agent/gantry/host/internal/launch/cgroup/cgrouptest"
)

// A limit of a parent group is not reported as the command's.
func TestMemoryLimitOfParentGroup(t *testing.T) {
	t.Parallel()
	dir := cgrouptest.New(t, fmt.Sprintf("above-%d", os.Getpid()))
	for _, f := range []struct{ name, text string }{{"cgroup.subtree_control", "+memory +pids"}, {"memory.max", "67108864"}, {"memory.swap.max", "0"}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0); err != nil && f.name != "memory.swap.max" {
			t.Fatal(err)
		}
	}
	l := newLauncher(t, func(c *launch.Config) { c.CgroupDir = dir })
	s := script(`head -c 400M /dev/zero | tail -c 390M >/dev/null; kill -9 $$`)
	s.Grant.Limits = launch.Limits{MemoryBytes: 1 << 30, MaxPids: 100}
	if _, _, exit := run(t, l, s); exit.Signal != syscall.SIGKILL || exit.Limit != "" {
		t.Errorf("exit %+v", exit)
	}
}

// Limits apply to descendants that survive the command, and are reported.
func TestMemoryLimitAppliesToDescendants(t *testing.T) {
	t.Parallel()
	if _, version := cgroup.Find("").Memory(); version != 2 {
		t.Skip("no groups of version 2 with memory can be made here")
	}
	heard := make(chan string, 10)
	l := newLauncher(t, func(c *launch.Config) { c.OnLimit = func(_ *launch.Process, limit string) { heard <- limit } })
	s := script(`(setsid sh -c 'head -c 400M /dev/zero | tail -c 390M' >/dev/null 2>&1 &)`)
	s.Grant.Limits.MemoryBytes = 64 << 20
	p := spawn(t, l, s)
	<-p.Gone()
	close(heard)
	if got := <-heard; got != launch.LimitMemory {
		t.Errorf("heard %q", got)
	}
}

// Groups that a command creates in its own are removed with it.
func TestNestedGroupsAreRemoved(t *testing.T) {
	t.Parallel()
	place, version := cgroup.Find("").PIDs()
	if version != 2 {
		t.Skip("no groups of version 2 with pids can be made here")
	}
	l := newLauncher(t)
	s := script(fmt.Sprintf(`mkdir -p %s/"$(basename "$(grep ^0: /proc/self/cgroup)")"/one/two && echo made`, place))
	s.Grant.Limits.MaxPids = 100
	p := spawn(t, l, s)
	var out strings.Builder
	if _, err := p.Attach(t.Context(), nil, func(o launch.Output) error { out.Write(o.Data); return nil }); err != nil {
		t.Error(err)
	}
	<-p.Gone()
	if out.String() != "made\n" {
		t.Errorf("wrote %q", out.String())
	}
	if left, _ := filepath.Glob(filepath.Join(place, "gantry-*"+p.ID())); len(left) > 0 {
		t.Errorf("groups are left: %v", left)
	}
}

// A tree that is killed while it forks has not reached a limit.
func TestKillIsNotReportedAsLimit(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script(`echo up; while :; do true & done`)
	s.Grant.Limits.MaxPids = 10_000
	p := spawn(t, l, s)
	up := make(chan struct{}, 1)
	go p.Attach(context.Background(), nil, func(launch.Output) error { // ends with the process
		select {
		case up <- struct{}{}:
		default:
		}
		return nil
	})
	<-up
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	if exit := wait(t, p); exit.Limit != "" {
		t.Errorf("exit %+v", exit)
	}
}
