package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A group of version 2 either has processes or gives controllers to groups in it, not both. So the groups of commands can't be made
// in the one that the host runs in, unless the host leaves it first. There are two places for them:
//
//   - The host's own group, where it was handed over: a service or scope with Delegate=yes, a container. The host moves itself and what
//     it has started into a group in it, and the commands' come beside that. What bounds the service bounds them too, and they end
//     with it. Somebody else's processes are never moved: where there are any, this place is none.
//   - The group above: that of a desktop's terminals, of a login, where whoever manages it has switched the controllers on.

// hostGroup is where a host moves that makes groups in its own. It stays when the host ends; whoever made the group around it removes
// both. Another host that starts in it makes its groups beside it.
const hostGroup = "gantry-host"

// controllers that enforce limits.
var controllers = []string{"memory", "pids"}

// findCgroups looks for the places: of version 2 in the given folder, or else where the host runs, and the host's own groups of
// version 1.
func findCgroups(dir string) (g cgroups) {
	if dir == "none" {
		return g
	}
	self, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	places := []folder{{dir: dir}}
	if dir == "" {
		places = placesOf(ownGroup(string(self), string(mounts), ""), delegated)
	}
	for _, p := range places {
		found := p.open()
		if g.unified == "" || found.has() > g.has() {
			g = found
		}
		if g.has() == len(controllers) {
			break
		}
	}
	first := func(controller string) string {
		if dir := ownGroup(string(self), string(mounts), controller); dir != "" && writable(dir, "tasks") {
			return dir
		}
		return ""
	}
	if dir == "" && !g.memory {
		g.memory1 = first("memory")
	}
	if dir == "" && !g.pids {
		g.pids1 = first("pids")
	}
	g.sweep()
	return g
}

// has is how many of the controllers there are.
func (g cgroups) has() (n int) {
	for _, ok := range []bool{g.memory, g.pids} {
		if ok {
			n++
		}
	}
	return n
}

// folder is one of version 2 in which groups may be made.
type folder struct {
	dir string
	own bool // the host runs in it
}

// placesOf are the places for a host that runs in a group, the better one first. handed reports whether whoever manages the groups of
// this machine has handed one over.
func placesOf(own string, handed func(dir string) bool) []folder {
	if own == "" {
		return nil
	}
	mine, above := folder{own, true}, folder{filepath.Dir(own), false}
	name := filepath.Base(own)
	switch {
	case !isGroup(above.dir):
		return []folder{mine}
	case name == hostGroup:
		return []folder{above}
	case strings.HasPrefix(name, prefix):
		return []folder{mine} // a command of another gantry's: beside it its limits would not hold
	case handed(own):
		return []folder{mine, above}
	}
	return []folder{above, mine}
}

// delegated reports whether systemd has handed a group over.
func delegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var b [2]byte
		if n, err := unix.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// open switches the controllers on where they can be, and says which there are. The zero value: no group can be made here.
func (p folder) open() (g cgroups) {
	if p.dir == "" || !writable(p.dir, "cgroup.procs") {
		return g
	}
	g.unified = p.dir
	there := words(p.dir, "cgroup.controllers")
	var on []string
	for _, c := range controllers {
		if slices.Contains(there, c) && !slices.Contains(words(p.dir, "cgroup.subtree_control"), c) {
			on = append(on, "+"+c)
		}
	}
	if len(on) > 0 {
		list := filepath.Join(p.dir, "cgroup.subtree_control")
		// The whole machine's group may have both, processes and controllers. It is the one without a type.
		_, err := os.Stat(filepath.Join(p.dir, "cgroup.type"))
		if p.own && err == nil {
			err = vacate(p.dir)
		} else {
			err = nil
		}
		if err == nil {
			os.WriteFile(list, []byte(strings.Join(on, " ")), 0o644)
		}
	}
	now := words(p.dir, "cgroup.subtree_control")
	g.memory, g.pids = slices.Contains(now, "memory"), slices.Contains(now, "pids")
	return g
}

func words(dir, file string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(b))
}

// errOccupied: somebody else's processes run in the group.
var errOccupied = errors.New("other processes run in the group")

// vacate moves the host, and what it has started, out of its group into one in it.
func vacate(dir string) error {
	leaf := filepath.Join(dir, hostGroup)
	const rounds = 10 // what is being forked meanwhile is found in the next
	for range rounds {
		in := words(dir, "cgroup.procs")
		if len(in) == 0 {
			return nil
		}
		if !allOurs(in, os.Getpid(), parentOf) {
			return errOccupied
		}
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for _, pid := range in {
			err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0o644)
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return errOccupied
}

// allOurs reports whether each of the numbers is the host's, or one below it. A number that is not to be seen from here is 0.
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

// parentOf is 0 where there is no such process.
func parentOf(pid int) int {
	t, _ := readTask(pid)
	return t.parent
}
