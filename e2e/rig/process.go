package rig

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Processes lists the processes whose working folder or environment refers to a folder of the rig, and whose command line contains
// a text.
func Processes(t testing.TB, dir, text string) []int {
	t.Helper()
	var out []int
	for _, pid := range pids(t) {
		at := filepath.Join("/proc", strconv.Itoa(pid))
		cwd, _ := os.Readlink(filepath.Join(at, "cwd"))
		if !strings.HasPrefix(cwd, dir) {
			if environ, _ := os.ReadFile(filepath.Join(at, "environ")); !bytes.Contains(environ, []byte(dir)) {
				continue
			}
		}
		if text != "" {
			if cmdline, _ := os.ReadFile(filepath.Join(at, "cmdline")); !bytes.Contains(cmdline, []byte(text)) {
				continue
			}
		}
		if _, _, lives := stat(pid); lives {
			out = append(out, pid)
		}
	}
	return out
}

func pids(t testing.TB) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// Descendants lists the descendants of a process, each with its start time, which distinguishes it from a later process with the
// same number.
func Descendants(t testing.TB, root int) map[int]string {
	t.Helper()
	children := map[int][]int{}
	all := map[int]string{}
	for _, pid := range pids(t) {
		if parent, start, ok := stat(pid); ok {
			children[parent] = append(children[parent], pid)
			all[pid] = start
		}
	}
	out := map[int]string{}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, c := range children[todo[0]] {
			out[c] = all[c]
			todo = append(todo, c)
		}
	}
	return out
}

// stat returns a process's parent and start time. ok is false if it has ended or is a zombie.
func stat(pid int) (parent int, start string, ok bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, "", false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[19], err == nil && fields[0] != "Z"
}

// Alive returns the descendants that are still running.
func Alive(pids map[int]string) []int {
	var out []int
	for pid, start := range pids {
		if _, s, ok := stat(pid); ok && s == start {
			out = append(out, pid)
		}
	}
	return out
}

// Kill sends SIGKILL.
func Kill(t testing.TB, pids ...int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("no process to kill")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// Descriptors lists a process's open files.
func Descriptors(t testing.TB, pid int) []string {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			out = append(out, to)
		}
	}
	return out
}

// NothingLeft checks, after the last run, that no process of the rig is running and no socket is left.
func (r *Rig) NothingLeft() {
	r.t.Helper()
	var left []string
	for _, dir := range []string{r.Home, r.Dir} {
		for _, pid := range Processes(r.t, dir, "") {
			cmdline, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			left = append(left, strconv.Itoa(pid)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	if len(left) > 0 {
		r.t.Errorf("processes left:\n%s", strings.Join(left, "\n"))
	}
	err := filepath.WalkDir(r.Home, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type()&os.ModeSocket != 0 {
			r.t.Errorf("a socket is left: %s", path)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}
