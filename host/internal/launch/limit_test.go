//go:build linux

package launch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/cgroup"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

func TestOtherModesAreRefused(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for mode, want := range map[string]string{
		"workspace-write": `sandbox mode "workspace-write" can't be enforced by this build, which knows full-access; set sandbox { mode = "full-access" } to run without confinement`,
		"read-only":       `sandbox mode "read-only" can't be enforced by this build, which knows full-access; set sandbox { mode = "full-access" } to run without confinement`,
		"":                `the grant names no sandbox mode; set sandbox { mode = "full-access" } to run without confinement`,
	} {
		s := command("true")
		s.Grant.Mode = mode
		_, err := l.Spawn(t.Context(), s)
		e, ok := errors.AsType[*launch.UnsupportedError](err)
		if !ok || e.Mode != mode || err.Error() != want {
			t.Errorf("mode %q: %v, want %q", mode, err, want)
		}
		if err := l.Check(s.Grant); err == nil || err.Error() != want {
			t.Errorf("check of mode %q: %v, want %q", mode, err, want)
		}
	}
}

// jail is a confiner for tests. It runs everything with env(1), and reports releases.
type jail struct {
	err      error
	released chan struct{}
}

func (jail) Name() string    { return "jail" }
func (jail) Modes() []string { return []string{"read-only"} }

func (jail) Enforces(g launch.Grant) bool { return g.Mode == "read-only" }
func (jail) Check(launch.Grant) error     { return nil }

func (j jail) Confine(_ context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (func(), error) {
	mark := "JAIL=" + g.Mode
	if readOnly {
		mark += "+"
	}
	c.Argv = append([]string{"env", mark}, c.Argv...)
	c.Rlimits = append(c.Rlimits, control.Rlimit{Resource: syscall.RLIMIT_CORE, Soft: 0, Hard: 0})
	return func() { j.released <- struct{}{} }, j.err
}

func TestConfiner(t *testing.T) {
	t.Parallel()
	j := jail{released: make(chan struct{}, 1)}
	l := newLauncher(t, func(c *launch.Config) { c.Confiners = []launch.Confiner{launch.Unconfined{}, j} })
	s := script(`echo "$JAIL $(ulimit -c)"`)
	s.Grant.Mode, s.ReadOnly = "read-only", true
	p := spawn(t, l, s)
	<-p.Gone()
	<-j.released
	var out strings.Builder
	if _, err := p.Attach(t.Context(), nil, func(o launch.Output) error { out.Write(o.Data); return nil }); err != nil {
		t.Error(err)
	}
	if want := "read-only+ 0\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
	s.Cwd = "/no/such/folder"
	if _, err := l.Spawn(t.Context(), s); err == nil {
		t.Error("it started")
	}
	<-j.released

	denied := &launch.StartError{Op: "confine", Message: "Operation not permitted", Errno: syscall.EPERM, Denied: true}
	j.err = denied
	l = newLauncher(t, func(c *launch.Config) { c.Confiners = []launch.Confiner{j} })
	if _, err := l.Spawn(t.Context(), s); !errors.Is(err, denied) {
		t.Errorf("error %v, want %v", err, denied)
	}
	<-j.released
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.CgroupDir = "none" })
	dir := t.TempDir()
	for _, tc := range []struct {
		name   string
		limits launch.Limits
		script string
		want   string
		code   int
	}{
		{"open files", launch.Limits{OpenFiles: 57}, "ulimit -n; ulimit -Hn", "57\n57\n", 0},
		{"address space", launch.Limits{AddressSpaceBytes: 1 << 30}, "ulimit -v", "1048576\n", 0},
		{"memory", launch.Limits{MemoryBytes: 64 << 20}, "ulimit -d", "65536\n", 0},
		{"memory of a child that wants more", launch.Limits{MemoryBytes: 64 << 20}, "dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null || echo refused", "refused\n", 0},
		{"core", launch.Limits{NoCore: true}, "ulimit -c; ulimit -Hc", "0\n0\n", 0},
		{"cpu", launch.Limits{CPUSeconds: 77}, "ulimit -t; ulimit -Ht", "77\n79\n", 0},
		{"file size", launch.Limits{FileBytes: 1024}, "exec 2>/dev/null; head -c 5000 /dev/zero > " + dir + "/f; wc -c < " + dir + "/f", "1024\n", 0},
		{"all", launch.Limits{OpenFiles: 57, AddressSpaceBytes: 1 << 30, MemoryBytes: 1 << 29, NoCore: true, CPUSeconds: 7, FileBytes: 1 << 20},
			"ulimit -n; ulimit -v; ulimit -d; ulimit -c; ulimit -t", "57\n1048576\n524288\n0\n7\n", 0},
		{"exit code", launch.Limits{NoCore: true}, "exit 5", "", 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := script(tc.script)
			s.Grant.Limits = tc.limits
			stdout, _, exit := run(t, l, s)
			if stdout != tc.want || exit.Code != tc.code {
				t.Errorf("wrote %q, %+v; want %q, %d", stdout, exit, tc.want, tc.code)
			}
		})
	}
	t.Run("not raised", func(t *testing.T) {
		s := script("ulimit -Hn")
		inherited, _, _ := run(t, l, s)
		s.Grant.Limits.OpenFiles = 1 << 40
		if got, _, _ := run(t, l, s); got != inherited {
			t.Errorf("descriptors %q, want %q as inherited", got, inherited)
		}
	})
	t.Run("unlimited is as inherited", func(t *testing.T) {
		// Neither stage of gantry-launch passes on the soft limit on descriptors that the Go runtime has raised.
		s := script("ulimit -Sn")
		direct, _, _ := run(t, l, s)
		s.Grant.Limits.NoCore = true
		if applied, _, _ := run(t, l, s); applied != direct {
			t.Errorf("soft limit %q in the second stage, %q without it", applied, direct)
		}
	})
	t.Run("large environment under little memory", func(t *testing.T) {
		s := script(`echo ${#A} ${#L}`)
		for _, name := range []string{"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L"} {
			s.Env = append(s.Env, name+"="+strings.Repeat("x", 120<<10))
		}
		s.Grant.Limits.AddressSpaceBytes, s.Grant.Limits.MemoryBytes = 64<<20, 32<<20
		if got, _, exit := run(t, l, s); got != "122880 122880\n" {
			t.Errorf("wrote %q, %+v", got, exit)
		}
	})
	t.Run("processes outside of a box", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root is not bound by it")
		}
		s := script("ulimit -p")
		s.Grant.Limits.MaxPids = 20
		got, _, _ := run(t, l, s)
		if n, err := strconv.Atoi(strings.TrimSpace(got)); err != nil || n < 20 || n > 1<<20 {
			t.Errorf("the kernel lets it have %q processes", got)
		}
	})
	t.Run("negative", func(t *testing.T) {
		s := command("true")
		s.Grant.Limits.OpenFiles = -1
		if _, err := l.Spawn(t.Context(), s); err == nil || !strings.Contains(err.Error(), "open files is -1") {
			t.Errorf("error %v", err)
		}
	})
}

func TestProcessorTimeRunsOut(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script("while :; do :; done")
	s.Grant.Limits.CPUSeconds, s.Grant.Limits.NoCore = 1, true
	_, _, exit := run(t, l, s)
	if exit.Signal != syscall.SIGXCPU || exit.Limit != "time" {
		t.Errorf("exit %+v", exit)
	}
}

// A tree that reaches a limit is ended, by control groups if they can be created on this machine, and by polling.
func TestLimitsEndTheTree(t *testing.T) {
	t.Parallel()
	places := cgroup.Find("")
	memory, _ := places.Memory()
	pids, _ := places.PIDs()
	for _, tc := range []struct {
		name   string
		limits launch.Limits
		script string
		want   string
	}{
		{"memory of one", launch.Limits{MemoryBytes: 64 << 20}, `head -c 400M /dev/zero | tail -c 390M >/dev/null; kill -9 $$`, launch.LimitMemory},
		{"memory of several", launch.Limits{MemoryBytes: 64 << 20}, `for i in 1 2 3 4 5 6 7 8 9 10; do (x=$(head -c 10M /dev/zero | tr '\0' x); sleep 1000; :) & done; wait`, launch.LimitMemory},
		{"processes", launch.Limits{MaxPids: 20}, `for i in $(seq 100); do sleep 1000 & done; wait`, launch.LimitPids},
		{"few processes", launch.Limits{MaxPids: 5}, `for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; wait`, launch.LimitPids},
		{"daemons", launch.Limits{MaxPids: 20}, `for i in $(seq 100); do setsid sleep 1000 & done; wait`, launch.LimitPids},
		{"a bomb", launch.Limits{MaxPids: 40}, `b() { b | b & }; b; sleep 1000`, launch.LimitPids},
		{"a slow bomb", launch.Limits{MaxPids: 40}, `b() { sleep 0.4; b | b & }; b; sleep 1000`, launch.LimitPids},
		{"processor time of several", launch.Limits{CPUSeconds: 1}, `for i in 1 2 3 4 5 6; do (while :; do :; done) & done; wait`, launch.LimitTime},
		{"the size of a file", launch.Limits{FileBytes: 1 << 20}, `cd "$(mktemp -d)"; trap 'rm -r "$PWD"' EXIT; head -c 5M /dev/zero >f`, launch.LimitFile},
		{"status 1", launch.Limits{MaxPids: 20, MemoryBytes: 64 << 20, CPUSeconds: 100, FileBytes: 1 << 20}, `exit 1`, ""},
		{"SIGKILL of its own", launch.Limits{MaxPids: 20, MemoryBytes: 64 << 20, CPUSeconds: 100}, `kill -9 $$`, ""},
	} {
		for _, dir := range []string{"", "none"} {
			if dir == "" && (memory == "" || pids == "") {
				continue
			}
			if dir == "none" && tc.name == "memory of one" {
				continue // which is refused more than that, and may do without
			}
			if dir == "none" && tc.name == "a bomb" {
				continue // thousands of processes until somebody looks: it would be the other tests that run out of time
			}
			if dir == "" && tc.want == launch.LimitTime {
				continue // which is looked at in any case
			}
			name := map[string]string{"": "in groups", "none": "looked at"}[dir]
			t.Run(tc.name+" "+name, func(t *testing.T) {
				t.Parallel()
				heard := make(chan string, 10)
				l := newLauncher(t, func(c *launch.Config) {
					c.CgroupDir, c.OnLimit = dir, func(_ *launch.Process, limit string) { heard <- limit }
				})
				s := script("exec 2>/dev/null; " + tc.script)
				s.Grant.Limits = tc.limits
				s.Grant.Limits.NoCore = true
				p := spawn(t, l, s)
				if exit := wait(t, p); exit.Limit != tc.want {
					t.Errorf("exit %+v, want limit %q", exit, tc.want)
				}
				<-p.Gone()
				close(heard)
				var got []string
				for limit := range heard {
					got = append(got, limit)
				}
				if want := strings.Fields(tc.want); !slices.Equal(got, want) {
					t.Errorf("heard %q, want %q", got, want)
				}
				for _, place := range []string{memory, pids} {
					if left, _ := filepath.Glob(filepath.Join(place, "gantry-*"+p.ID())); place != "" && len(left) > 0 {
						t.Errorf("groups are left: %v", left)
					}
				}
			})
		}
	}
}

// A process has the stricter of the grant's and the plugin's limits. A limit that the plugin has set is not described as the user's.
func TestLimitsOfThePlugin(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.CgroupDir = "none" })
	s := script("ulimit -n; ulimit -t")
	s.Grant.Limits, s.Limits = launch.Limits{OpenFiles: 100, CPUSeconds: 50}, launch.Limits{OpenFiles: 200, CPUSeconds: 30}
	p := spawn(t, l, s)
	<-p.Gone()
	var out strings.Builder
	if _, err := p.Attach(t.Context(), nil, func(o launch.Output) error { out.Write(o.Data); return nil }); err != nil {
		t.Error(err)
	}
	if want := "100\n30\n"; out.String() != want {
		t.Errorf("limits %q, want %q", out.String(), want)
	}
	if what, value, name := p.Limit(launch.LimitTime); what != "processor time" || value != "30s" || name != "" {
		t.Errorf("the plugin's limit is described as %q %q %q", what, value, name)
	}
	s.Limits = launch.Limits{CPUSeconds: 60}
	p = spawn(t, l, s)
	<-p.Gone()
	if _, value, name := p.Limit(launch.LimitTime); value != "50s" || name != "cpu_time" {
		t.Errorf("the user's limit is described as %q %q", value, name)
	}
}
