package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/cgroup"
	"github.com/gantry-agent/gantry/host/internal/launch/cgroup/cgrouptest"
)

// helperEnv makes the test binary a host that looks for places.
const helperEnv = "GANTRY_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helpHost()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// place returns the folder of version 2 that Find finds, and whether it has the controllers.
func place(dir string) (unified string, memory, pids bool) { return cgroup.Unified(cgroup.Find(dir)) }

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
		if got := cgroup.OwnGroup(tc.self, tc.mounts, tc.controller); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if unified, _, _ := place(dir); unified != "" {
		t.Errorf("a plain folder was taken for a group: %q", unified)
	}
	write(t, filepath.Join(dir, "cgroup.procs"), "")
	write(t, filepath.Join(dir, "cgroup.subtree_control"), "cpu memory pids\n")
	if unified, memory, pids := place(dir); unified != dir || !memory || !pids {
		t.Errorf("%q, memory %v, pids %v", unified, memory, pids)
	}
	write(t, filepath.Join(dir, "cgroup.subtree_control"), "cpu\n")
	if unified, memory, pids := place(dir); unified != dir || memory || pids {
		t.Errorf("%q, memory %v, pids %v", unified, memory, pids)
	}
	if unified, _, _ := place("none"); unified != "" {
		t.Errorf("none is %q", unified)
	}
}

// A killed host leaves no groups: gantry-launch removes them, or if that was killed as well, the next host.
func TestGroupsOfDeadHostsAreRemoved(t *testing.T) {
	t.Parallel()
	memory, _ := cgroup.Find("").Memory()
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
	cgroup.Find("")
	for _, dir := range []string{dead, reborn} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// Processes that a dead host has left in its groups are killed, and the groups are removed. Those of other hosts are not touched.
func TestProcessesOfDeadHostsAreKilled(t *testing.T) {
	t.Parallel()
	memory, _ := cgroup.Find("").Memory()
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
		cgroup.Find("")
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

func TestCandidates(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{"", "service", "service/gantry-host", "service/gantry-7-1-p-x"} {
		write(t, filepath.Join(top, dir, "cgroup.procs"), "")
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
		if got := cgroup.Candidates(filepath.Join(top, tc.own), tc.handed); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tc.name, got, want)
		}
	}
	if got := cgroup.Candidates("", false); got != nil {
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
		if got := cgroup.AllOurs(strings.Fields(tc.pids), 100, func(pid int) int { return parents[pid] }); got != tc.want {
			t.Errorf("%s: %v", tc.pids, got)
		}
	}
	if !cgroup.AllOurs([]string{"1", "5"}, 1, func(int) int { return 1 }) {
		t.Error("a host that is the first process of its container has no descendants")
	}
}

// Controllers are enabled if that does not affect other processes.
func TestControllersAreEnabled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("cgroup.procs"), "")
	write(t, at("cgroup.controllers"), "cpu memory pids\n")
	for _, tc := range []struct{ before, after string }{
		{"", "+memory +pids"},
		{"cpu memory\n", "+pids"},
		{"memory pids\n", "memory pids\n"},
	} {
		write(t, at("cgroup.subtree_control"), tc.before)
		place(dir)
		if got, _ := os.ReadFile(at("cgroup.subtree_control")); string(got) != tc.after {
			t.Errorf("of %q became %q, want %q", tc.before, got, tc.after)
		}
	}
	write(t, at("cgroup.procs"), "1\n")
	if err := cgroup.Vacate(dir); err == nil {
		t.Error("a stranger was moved")
	}
	if _, err := os.Stat(at("gantry-host")); err == nil {
		t.Error("a group was made for a host that can't leave its own")
	}
}

// startIn starts a program in a group.
func startIn(t *testing.T, dir string, cmd *exec.Cmd) {
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

// helpHost prints where a host in this group creates its groups, and in which groups it and its child run then.
func helpHost() {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		panic(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	p := cgroup.Find("")
	memory, _ := p.Memory()
	pids, _ := p.PIDs()
	fmt.Println(memory)
	fmt.Println(pids)
	for _, pid := range []int{os.Getpid(), child.Process.Pid} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		fmt.Println(filepath.Base(strings.TrimSpace(string(b))))
	}
}

// In a delegated group, a host moves itself and its children out of it and creates its groups there, unless there are other processes in it.
func TestDelegatedGroup(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %v", alone), func(t *testing.T) {
			dir := cgrouptest.New(t, fmt.Sprintf("handed-%d-%v", os.Getpid(), alone))
			if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
				t.Skipf("groups can't be marked here: %v", err)
			}
			want := []string{dir, dir, "gantry-host", "gantry-host"}
			if !alone {
				startIn(t, dir, exec.Command("sleep", "1000"))
				above, name := filepath.Dir(dir), filepath.Base(dir)
				want = []string{above, above, name, name}
			}
			var out strings.Builder
			host := exec.Command("/proc/self/exe")
			host.Env, host.Stdout, host.Stderr = append(os.Environ(), helperEnv+"=host"), &out, os.Stderr
			startIn(t, dir, host)
			if err := host.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(out.String()); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
