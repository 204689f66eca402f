// Package cgroup limits the memory and the number of processes of a tree with Linux's control groups, of version 2 or 1.
//
// It owns: finding a folder in which groups can be created, the groups of a tree, the notification that one has reached its limit, and
// removing what dead hosts have left. It must not know: how processes are started, what limits a user can set.
//
// Start with [Find].
package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// A group of version 2 either has processes or enables controllers for its children, not both. So the groups of commands can't be
// created in the group that the host runs in, unless the host leaves it first. There are two places for them:
//
//   - The host's own group, if it was delegated: a service or scope with Delegate=yes, or a container. The host moves itself and the
//     processes that it has started into a child group, and creates the commands' groups next to that. Limits of the service apply to
//     them, and they end with it. Other processes are never moved: if there are any, this place can't be used.
//   - The parent group: that of a desktop's terminals or of a login session, if its manager has enabled the controllers.

// hostGroup is the child group that a host moves into when it creates groups in its own. It remains when the host ends; the manager of
// the group around it removes both. Another host that is started in it creates its groups next to it.
const hostGroup = "gantry-host"

// controllers are those that enforce limits.
var controllers = []string{"memory", "pids"}

// Places are the folders in which groups can be created, and the controllers that they have. All controllers of version 2 are in one
// tree of folders; in version 1 each has its own. The zero value has none.
type Places struct {
	unified      string // folder of version 2; empty: none
	memory, pids bool   // controllers of groups in it
	memoryV1     string // our own group of version 1; only for controllers that version 2 doesn't have
	pidsV1       string
}

// Memory returns the folder in which groups can be created that limit memory, and the version of control groups. It is empty if there
// is none.
func (p Places) Memory() (dir string, version int) { return p.place(p.memory, p.memoryV1) }

// PIDs is like Memory, for groups that limit the number of processes.
func (p Places) PIDs() (dir string, version int) { return p.place(p.pids, p.pidsV1) }

func (p Places) place(unified bool, v1 string) (string, int) {
	if unified {
		return p.unified, 2
	}
	return v1, 1
}

// Find looks for places: of version 2 in the folder dir, of either version around the host's own group if dir is empty. It returns the
// zero value if dir is "none". Groups that dead hosts have left there are removed.
func Find(dir string) (p Places) {
	if dir == "none" {
		return p
	}
	self, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	folders := []folder{{dir: dir}}
	if dir == "" {
		folders = candidates(ownGroup(string(self), string(mounts), ""), delegated)
	}
	for _, f := range folders {
		found := f.open()
		if p.unified == "" || found.controllers() > p.controllers() {
			p = found
		}
		if p.controllers() == len(controllers) {
			break
		}
	}
	v1 := func(controller string) string {
		if dir := ownGroup(string(self), string(mounts), controller); dir != "" && writable(dir, "tasks") {
			return dir
		}
		return ""
	}
	if dir == "" && !p.memory {
		p.memoryV1 = v1("memory")
	}
	if dir == "" && !p.pids {
		p.pidsV1 = v1("pids")
	}
	p.sweep()
	return p
}

// controllers returns how many controllers of version 2 there are.
func (p Places) controllers() (n int) {
	for _, ok := range []bool{p.memory, p.pids} {
		if ok {
			n++
		}
	}
	return n
}

// ownGroup returns the folder of our own group, from the contents of /proc/self/cgroup and mountinfo: the group of version 2, or with
// a controller's name, the one in that controller's tree of version 1.
func ownGroup(self, mounts, controller string) string {
	has := func(list string) bool { return slices.Contains(strings.Split(list, ","), controller) }
	own := ""
	for line := range strings.Lines(self) {
		// 4:memory:PATH, and 0::PATH for version 2
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (controller == "" && f[0] == "0" && f[1] == "" || controller != "" && has(f[1])) {
			own = f[2]
		}
	}
	if own == "" {
		return ""
	}
	for line := range strings.Lines(mounts) {
		// 29 23 0:26 ROOT POINT options ... - cgroup2 source options
		head, tail, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(head), strings.Fields(tail)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		if controller == "" && kind[0] != "cgroup2" || controller != "" && (kind[0] != "cgroup" || !has(kind[2])) {
			continue
		}
		if below, ok := strings.CutPrefix(own, fields[3]); ok {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// folder is a group of version 2 in which groups may be created.
type folder struct {
	dir string
	own bool // the host runs in it
}

// candidates returns the folders in which a host that runs in the group own may create groups, the better one first. delegated reports
// whether the manager of a group has delegated it.
func candidates(own string, delegated func(dir string) bool) []folder {
	if own == "" {
		return nil
	}
	mine, parent := folder{own, true}, folder{filepath.Dir(own), false}
	name := filepath.Base(own)
	switch {
	case !isGroup(parent.dir):
		return []folder{mine}
	case name == hostGroup:
		return []folder{parent}
	case strings.HasPrefix(name, prefix):
		return []folder{mine} // we are a command of another gantry, whose limits must apply to our commands
	case delegated(own):
		return []folder{mine, parent}
	}
	return []folder{parent, mine}
}

// delegated reports whether systemd has delegated a group.
func delegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var b [2]byte
		if n, err := unix.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// open enables the controllers that can be enabled, and returns the folder as a place with those that are. It returns the zero value
// if no group can be created in the folder.
func (f folder) open() (p Places) {
	if f.dir == "" || !writable(f.dir, "cgroup.procs") {
		return p
	}
	p.unified = f.dir
	available := words(f.dir, "cgroup.controllers")
	var on []string
	for _, c := range controllers {
		if slices.Contains(available, c) && !slices.Contains(words(f.dir, "cgroup.subtree_control"), c) {
			on = append(on, "+"+c)
		}
	}
	if len(on) > 0 {
		list := filepath.Join(f.dir, "cgroup.subtree_control")
		// The root group, which is the one without a type, may have both processes and controllers.
		_, err := os.Stat(filepath.Join(f.dir, "cgroup.type"))
		if f.own && err == nil {
			err = vacate(f.dir)
		} else {
			err = nil
		}
		if err == nil {
			os.WriteFile(list, []byte(strings.Join(on, " ")), 0o644)
		}
	}
	now := words(f.dir, "cgroup.subtree_control")
	p.memory, p.pids = slices.Contains(now, "memory"), slices.Contains(now, "pids")
	return p
}

// writable reports whether groups can be created in a folder, and processes moved into and out of it.
func writable(dir, list string) bool {
	const wOK, xOK = 2, 1
	return isGroup(dir) && syscall.Access(dir, wOK|xOK) == nil && syscall.Access(filepath.Join(dir, list), wOK) == nil
}

func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

func words(dir, file string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(b))
}

// errOccupied: the group has processes that are not the host's.
var errOccupied = errors.New("other processes run in the group")

// vacate moves the host, and the processes that it has started, out of its group into a child of it.
func vacate(dir string) error {
	child := filepath.Join(dir, hostGroup)
	const rounds = 10 // the next round finds processes that were forked during a round
	for range rounds {
		in := words(dir, "cgroup.procs")
		if len(in) == 0 {
			return nil
		}
		if !allOurs(in, os.Getpid(), parentOf) {
			return errOccupied
		}
		if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for _, pid := range in {
			err := os.WriteFile(filepath.Join(child, "cgroup.procs"), []byte(pid), 0o644)
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return errOccupied
}

// allOurs reports whether each process is the host or a descendant of it. The id of a process in a PID namespace that can't be seen
// from here is 0.
func allOurs(pids []string, host int, parent func(pid int) int) bool {
	for _, s := range pids {
		pid, err := strconv.Atoi(s)
		if err != nil || pid == 0 {
			return false
		}
		for pid != host {
			if pid = parent(pid); pid <= 1 && pid != host {
				return false
			}
		}
	}
	return true
}

// parentOf returns 0 if there is no such process.
func parentOf(pid int) int {
	s, _ := procfs.Read(pid)
	return s.Parent
}
