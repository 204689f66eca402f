package launch_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

func TestPlacesOf(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{"", "service", "service/gantry-host", "service/gantry-7-1-p-x"} {
		write(t, filepath.Join(top, dir, "cgroup.procs"), "", 0o644)
	}
	for _, tc := range []struct {
		name, own string
		handed    bool
		want      []string
	}{
		{"a terminal of a desktop", "service", false, []string{"", "service"}},
		{"handed over", "service", true, []string{"service", ""}},
		{"nothing above it is seen", "", false, []string{""}},
		{"another host has left it", "service/gantry-host", false, []string{"service"}},
		{"a command of another host's", "service/gantry-7-1-p-x", false, []string{"service/gantry-7-1-p-x"}},
	} {
		var want []string
		for _, dir := range tc.want {
			want = append(want, filepath.Join(top, dir))
		}
		if got := launch.PlacesOf(filepath.Join(top, tc.own), tc.handed); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tc.name, got, want)
		}
	}
	if got := launch.PlacesOf("", false); got != nil {
		t.Errorf("without a group: %q", got)
	}
}

func TestAllOurs(t *testing.T) {
	t.Parallel()
	parents := map[int]int{100: 1, 101: 100, 102: 101, 200: 1, 201: 200}
	for _, tc := range []struct {
		pids string
		want bool
	}{
		{"100", true},
		{"100 101 102", true},
		{"100 200", false},
		{"100 102 201", false},
		{"100 1", false},
		{"0 100", false},   // of another namespace
		{"100 300", false}, // which has ended
		{"x", false},
	} {
		if got := launch.AllOurs(strings.Fields(tc.pids), 100, func(pid int) int { return parents[pid] }); got != tc.want {
			t.Errorf("%s: %v", tc.pids, got)
		}
	}
	if !launch.AllOurs([]string{"1", "5"}, 1, func(int) int { return 1 }) {
		t.Error("a host that is the first process of its container has no descendants")
	}
}

// Controllers are switched on where that takes nothing from anybody.
func TestControllersAreSwitchedOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("cgroup.procs"), "", 0o644)
	write(t, at("cgroup.controllers"), "cpu memory pids\n", 0o644)
	for _, tc := range []struct{ before, after string }{
		{"", "+memory +pids"},
		{"cpu memory\n", "+pids"},
		{"memory pids\n", "memory pids\n"},
	} {
		write(t, at("cgroup.subtree_control"), tc.before, 0o644)
		launch.Cgroups(dir)
		if got, _ := os.ReadFile(at("cgroup.subtree_control")); string(got) != tc.after {
			t.Errorf("of %q became %q, want %q", tc.before, got, tc.after)
		}
	}
	write(t, at("cgroup.procs"), "1\n", 0o644)
	if err := launch.Vacate(dir); err == nil {
		t.Error("a stranger was moved")
	}
	if _, err := os.Stat(at("gantry-host")); err == nil {
		t.Error("a group was made for a host that can't leave its own")
	}
}

// realGroup makes a group of version 2, with both controllers, where this machine lets us.
func realGroup(t *testing.T, name string) string {
	t.Helper()
	place, memory, pids := launch.Cgroups("")
	if !memory || !pids {
		t.Skip("no groups of version 2 with memory and pids can be made here")
	}
	dir := filepath.Join(place, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		for range 100 {
			filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error { syscall.Rmdir(path); return nil })
			if syscall.Rmdir(filepath.Join(dir, "gantry-host")); syscall.Rmdir(dir) == nil || !isThere(dir) {
				return
			}
			exec.Command("true").Run()
		}
		t.Errorf("%s can't be removed", dir)
	})
	return dir
}

func isThere(path string) bool { _, err := os.Stat(path); return err == nil }

// bornIn starts a program in a group.
func bornIn(t *testing.T, dir string, cmd *exec.Cmd) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd()), Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// helpPlace says where a host that runs here makes its groups, and where it and what it has started run then.
func helpPlace() {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		panic(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	memory, pids := launch.GroupPlaces()
	fmt.Println(memory)
	fmt.Println(pids)
	for _, pid := range []int{os.Getpid(), child.Process.Pid} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		fmt.Println(filepath.Base(strings.TrimSpace(string(b))))
	}
}

// In a group that was handed over a host leaves it with all that it has started, and makes its groups there; not when somebody else
// is in it, too.
func TestAGroupThatWasHandedOver(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %v", alone), func(t *testing.T) {
			dir := realGroup(t, fmt.Sprintf("handed-%d-%v", os.Getpid(), alone))
			if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
				t.Skipf("groups can't be marked here: %v", err)
			}
			want := []string{dir, dir, "gantry-host", "gantry-host"}
			if !alone {
				bornIn(t, dir, exec.Command("sleep", "1000"))
				above, name := filepath.Dir(dir), filepath.Base(dir)
				want = []string{above, above, name, name}
			}
			var out strings.Builder
			host := exec.Command("/proc/self/exe")
			host.Env, host.Stdout, host.Stderr = append(os.Environ(), helperEnv+"=place"), &out, os.Stderr
			bornIn(t, dir, host)
			if err := host.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(out.String()); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// What a group above ran out of is not said to be a limit of the command's.
func TestMemoryOfAGroupAbove(t *testing.T) {
	t.Parallel()
	dir := realGroup(t, fmt.Sprintf("above-%d", os.Getpid()))
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

// What a command has left running is bounded as well, and somebody hears of it.
func TestMemoryOfWhatIsLeftRunning(t *testing.T) {
	t.Parallel()
	if _, memory, _ := launch.Cgroups(""); !memory {
		t.Skip("no groups of version 2 with memory can be made here")
	}
	heard := make(chan string, 10)
	l := newLauncher(t, func(c *launch.Config) { c.Limited = func(_ *launch.Process, limit string) { heard <- limit } })
	s := script(`(setsid sh -c 'head -c 400M /dev/zero | tail -c 390M' >/dev/null 2>&1 &)`)
	s.Grant.Limits.MemoryBytes = 64 << 20
	p := spawn(t, l, s)
	<-p.Gone()
	close(heard)
	if got := <-heard; got != launch.LimitMemory {
		t.Errorf("heard %q", got)
	}
}

// Groups that a command makes in its own go with it.
func TestGroupsInGroups(t *testing.T) {
	t.Parallel()
	place, _, pids := launch.Cgroups("")
	if !pids {
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

// Being killed while it forks is no limit that was reached.
func TestKilledWhileItForks(t *testing.T) {
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
