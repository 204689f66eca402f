//go:build linux

package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
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

// jail is a confiner for tests: it runs everything through env(1), and counts.
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

func TestConfinerIsAsked(t *testing.T) {
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
		// Through both stages of the launcher the soft limit of descriptors stays as it was before the Go runtime raised it.
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

func TestOwnGroup(t *testing.T) {
	t.Parallel()
	const v2 = "25 20 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	const v1 = "30 20 0:9 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 20 0:10 / /sys/fs/cgroup/cpu,pids rw - cgroup cgroup rw,cpu,pids\n"
	for _, tc := range []struct{ name, self, mounts, want, controller string }{
		{"version 1", "4:memory:/a\n3:cpu,pids:/b\n0::/c\n", v1, "/sys/fs/cgroup/memory/a", "memory"},
		{"version 1 beside others", "4:memory:/a\n3:cpu,pids:/b\n0::/c\n", v1, "/sys/fs/cgroup/cpu,pids/b", "pids"},
		{"version 1 with a colon", "4:memory:/a:b\n", v1, "/sys/fs/cgroup/memory/a:b", "memory"},
		{"version 1 without it", "4:memory:/a\n", v1, "", "pids"},
		{"version 1 not mounted", "4:memory:/a\n", v2, "", "memory"},
		{"user session", "0::/user.slice/user-1000.slice/app.slice/term.scope\n", v2, "/sys/fs/cgroup/user.slice/user-1000.slice/app.slice/term.scope", ""},
		{"root", "0::/\n", v2, "/sys/fs/cgroup", ""},
		{"hybrid", "4:memory:/a\n0::/b\n", "25 20 0:22 / /sys/fs/cgroup/unified rw shared:2 - cgroup2 cgroup2 rw\n30 20 0:9 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "/sys/fs/cgroup/unified/b", ""},
		{"part of the tree is mounted", "0::/docker/abc/x\n", "25 20 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "/sys/fs/cgroup/x", ""},
		{"another part is mounted", "0::/other\n", "25 20 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "", ""},
		{"only version 1", "4:memory:/a\n", v2, "", ""},
		{"not mounted", "0::/a\n", "30 20 0:9 / /proc rw - proc proc rw\n", "", ""},
		{"nothing", "", "", "", ""},
	} {
		if got := launch.OwnGroup(tc.self, tc.mounts, tc.controller); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestCgroupsWithTheirControllers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if place, _, _ := launch.Cgroups(dir); place != "" {
		t.Errorf("a plain folder was taken for a group: %q", place)
	}
	write(t, filepath.Join(dir, "cgroup.procs"), "", 0o644)
	write(t, filepath.Join(dir, "cgroup.subtree_control"), "cpu memory pids\n", 0o644)
	if place, memory, pids := launch.Cgroups(dir); place != dir || !memory || !pids {
		t.Errorf("%q, memory %v, pids %v", place, memory, pids)
	}
	write(t, filepath.Join(dir, "cgroup.subtree_control"), "cpu\n", 0o644)
	if place, memory, pids := launch.Cgroups(dir); place != dir || memory || pids {
		t.Errorf("%q, memory %v, pids %v", place, memory, pids)
	}
	if place, _, _ := launch.Cgroups("none"); place != "" {
		t.Errorf("none is %q", place)
	}
}

// What ends a tree that reaches a limit: groups, where this machine lets us make some, and else a look at it.
func TestLimitsEndTheTree(t *testing.T) {
	t.Parallel()
	memory, pids := launch.GroupPlaces()
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
		{"a slow bomb", launch.Limits{MaxPids: 40}, `b() { sleep 0.1; b | b & }; b; sleep 1000`, launch.LimitPids},
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
					c.CgroupDir, c.Limited = dir, func(_ *launch.Process, limit string) { heard <- limit }
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

// A host that was killed leaves no group: its launchers remove them, and where these were killed too, the next host.
func TestGroupsOfTheDead(t *testing.T) {
	t.Parallel()
	memory, _ := launch.GroupPlaces()
	if memory == "" {
		t.Skip("no control groups can be made here")
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(memory, fmt.Sprintf("gantry-%d-1-p-dead", gone.Process.Pid))
	reborn := filepath.Join(memory, fmt.Sprintf("gantry-%d-1-p-reborn", os.Getpid()))
	for _, dir := range []string{dead, reborn} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	launch.GroupPlaces()
	for _, dir := range []string{dead, reborn} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// What a dead host has left running in its groups ends, and the groups go: those of others stay as they are.
func TestWhatTheDeadHaveLeftRunning(t *testing.T) {
	t.Parallel()
	memory, _ := launch.GroupPlaces()
	if memory == "" {
		t.Skip("no control groups can be made here")
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	alive, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	born := strings.Fields(string(alive[strings.LastIndexByte(string(alive), ')')+1:]))[19]
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	ns = strings.Trim(ns, "pid:[]")
	for name, ends := range map[string]bool{
		fmt.Sprintf("gantry-%d-1.%s-p-left", gone.Process.Pid, ns):   true,
		fmt.Sprintf("gantry-%d-%s.%s-p-ours", os.Getpid(), born, ns): false,
		fmt.Sprintf("gantry-%d-1.1-p-theirs", gone.Process.Pid):      false, // in a container, where numbers mean others
		fmt.Sprintf("gantry-%d-1-p-old", gone.Process.Pid):           false,
	} {
		dir := filepath.Join(memory, name)
		ours := exec.Command("sh", "-c", "trap '' TERM HUP; sleep 1000 & sleep 1000")
		ours.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := ours.Start(); err != nil {
			t.Fatal(err)
		}
		for err := fs.ErrNotExist; errors.Is(err, fs.ErrNotExist); { // while it is empty any other test may take it away
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
			err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Appendf(nil, "%d", ours.Process.Pid), 0o644)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		launch.GroupPlaces()
		_, err := os.Stat(dir)
		if left := err == nil; left == ends {
			t.Errorf("%s is left: %v", name, left)
		}
		listed, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if lives := len(strings.Fields(string(listed))) > 0; lives == ends {
			t.Errorf("%s: something in it lives: %v", name, lives)
		}
		syscall.Kill(-ours.Process.Pid, syscall.SIGKILL)
		_ = ours.Wait()
		for syscall.Rmdir(dir) == syscall.EBUSY { // until the kernel has let go of them
			runtime.Gosched()
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	l := launch.Limits{MemoryBytes: 1 << 30, MaxPids: 7, CPUSeconds: 90, FileBytes: 1000}
	for limit, want := range map[string][3]string{
		launch.LimitMemory: {"memory", "1GiB", "memory"},
		launch.LimitPids:   {"processes", "7", "pids"},
		launch.LimitTime:   {"processor time", "1m30s", "cpu_time"},
		launch.LimitFile:   {"the size of a file", "1000B", "file_size"},
	} {
		if what, value, name := l.Setting(limit); [3]string{what, value, name} != want {
			t.Errorf("%s: %q %q %q, want %q", limit, what, value, name, want)
		}
	}
}
