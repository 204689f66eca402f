// Package cgrouptest creates real control groups for tests.
//
// It owns: groups that are removed when their test ends. It must not know: what a test does in them.
//
// Start with [New].
package cgrouptest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/cgroup"
)

// New creates a group of version 2 with the controllers memory and pids, and removes it when the test ends. It skips the test where that
// isn't possible.
func New(t testing.TB, name string) string {
	t.Helper()
	place, version := cgroup.Find("").Memory()
	if pids, _ := cgroup.Find("").PIDs(); version != 2 || pids != place {
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
			if syscall.Rmdir(filepath.Join(dir, "gantry-host")); syscall.Rmdir(dir) == nil || errors.Is(syscall.Access(dir, 0), syscall.ENOENT) {
				return
			}
			exec.Command("true").Run()
		}
		t.Errorf("%s can't be removed", dir)
	})
	return dir
}
