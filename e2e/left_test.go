package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// leavings lists what a host has at one moment that kills could leave behind.
type leavings struct {
	processes   []string // below the host, with their command lines
	descriptors []string // of the host, with what they refer to
	folders     []string // of the home and the working folder
}

// countLeft lists what the host of an app server has now. The connections to the database are left out: they are a pool, whose size depends
// on how many were busy at once.
func countLeft(t testing.TB, r *rig.Rig, c *rig.Client) leavings {
	t.Helper()
	var l leavings
	for pid := range rig.Descendants(t, c.PID()) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		l.processes = append(l.processes, strings.TrimSpace(fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(cmdline), "\x00", " "))))
	}
	l.descriptors = slices.DeleteFunc(rig.Descriptors(t, c.PID()), func(to string) bool {
		return strings.HasPrefix(to, filepath.Join(r.Home, "threads.db"))
	})
	l.folders = listFolders(r.Home, r.Dir)
	return l
}

// listFolders lists the folders below some.
func listFolders(dirs ...string) (out []string) {
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error { // they change meanwhile
			if err == nil && e.IsDir() {
				out = append(out, path)
			}
			return nil
		})
	}
	return out
}

// nothingSince waits until the host has no more processes, descriptors and folders than before, or fails with what is new.
func nothingSince(t testing.TB, r *rig.Rig, c *rig.Client, before leavings, what string) {
	t.Helper()
	now := before
	defer func() {
		if t.Failed() {
			for _, l := range []struct {
				name        string
				before, now []string
			}{
				{"processes", before.processes, now.processes},
				{"descriptors", before.descriptors, now.descriptors},
				{"folders", before.folders, now.folders},
			} {
				added := slices.DeleteFunc(slices.Clone(l.now), func(s string) bool { return slices.Contains(l.before, s) })
				t.Logf("%d %s before, %d now; new:\n%s", len(l.before), l.name, len(l.now), strings.Join(added, "\n"))
			}
		}
	}()
	r.Until(what, func() bool {
		now = countLeft(t, r, c)
		return len(now.processes) <= len(before.processes) && len(now.descriptors) <= len(before.descriptors) &&
			len(now.folders) <= len(before.folders)
	})
}
