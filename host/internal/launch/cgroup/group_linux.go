package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// startPIDs is the smallest limit on processes while a command is being started: the second stage of gantry-launch has threads of its
// own.
const startPIDs = 16

// Group is the control groups of one process tree. The zero value is a tree without groups.
type Group struct {
	Unified string   // folder of version 2; empty: none
	V1      []string // folders of version 1

	memory  string // the folder that limits memory; empty: none does
	pids    string // the folder that limits processes; empty: none does
	maxPIDs int64  // in force from Started on

	files []*os.File // notify Watch when a limit has been reached
}

// New creates the groups that limit memory and processes, where there is a place for them; 0 is no limit. id is the tree's and becomes
// part of the groups' names.
func (p Places) New(id string, memoryBytes, maxPIDs int64) (_ Group, err error) {
	g := Group{maxPIDs: maxPIDs}
	defer func() {
		if err != nil {
			g.Remove()
		}
	}()
	name := groupName(id)
	mkdir := func(place string) (string, error) {
		dir := filepath.Join(place, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("create a control group: %w", err)
		}
		return dir, nil
	}
	if memoryBytes > 0 && p.memory || maxPIDs > 0 && p.pids {
		if g.Unified, err = mkdir(p.unified); err != nil {
			return Group{}, err
		}
	}
	in := func(unified bool, place string) (string, error) {
		switch {
		case unified:
			return g.Unified, nil
		case place == "":
			return "", nil
		}
		dir, err := mkdir(place)
		if err == nil && !slices.Contains(g.V1, dir) {
			g.V1 = append(g.V1, dir)
		}
		return dir, err
	}
	if memoryBytes > 0 {
		if g.memory, err = in(p.memory, p.memoryV1); err != nil {
			return Group{}, err
		}
		if err = g.limitMemory(memoryBytes); err != nil {
			return Group{}, fmt.Errorf("set up a control group: %w", err)
		}
	}
	if maxPIDs > 0 {
		if g.pids, err = in(p.pids, p.pidsV1); err != nil {
			return Group{}, err
		}
		if g.pids != "" {
			if err = put(g.pids, "pids.max", max(maxPIDs, startPIDs)); err != nil {
				return Group{}, fmt.Errorf("set up a control group: %w", err)
			}
		}
	}
	return g, nil
}

func put(dir, file string, v int64) error {
	return os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, v, 10), 0o644)
}

func (g *Group) limitMemory(most int64) error {
	switch g.memory {
	case "":
		return nil
	case g.Unified:
		put(g.memory, "memory.swap.max", 0)  // the file is missing if swap is not accounted for
		put(g.memory, "memory.oom.group", 1) // a tree that has lost its largest process is of no use
		return put(g.memory, "memory.max", most)
	}
	if err := put(g.memory, "memory.limit_in_bytes", most); err != nil {
		return err
	}
	put(g.memory, "memory.memsw.limit_in_bytes", most) // the file is missing if swap is not accounted for
	return nil
}

// LimitsMemory reports whether a group limits the memory of the tree.
func (g *Group) LimitsMemory() bool { return g.memory != "" }

// LimitsPIDs reports whether a group limits the processes of the tree.
func (g *Group) LimitsPIDs() bool { return g.pids != "" }

// NeedsPolling reports whether OutOfPIDs has to be called from time to time: version 1 enforces a limit on processes but does not
// notify anyone that it has been reached.
func (g *Group) NeedsPolling() bool { return g.pids != g.Unified && g.pids != "" }

// Started puts the limit on processes into force once the command runs. It reports whether the tree is beyond the limit already.
func (g *Group) Started() (beyond bool) {
	if g.pids == "" || g.maxPIDs >= startPIDs {
		return false
	}
	put(g.pids, "pids.max", g.maxPIDs)
	b, _ := os.ReadFile(filepath.Join(g.pids, "pids.current"))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n > g.maxPIDs
}

// Remove removes the groups, which must not have processes any more, and ends Watch.
func (g *Group) Remove() {
	for _, f := range g.files {
		f.Close()
	}
	for _, dir := range append(slices.Clone(g.V1), g.Unified) {
		if dir != "" {
			removeTree(dir)
		}
	}
}

// removeTree removes a group and its descendants, which the command may have created. A group with processes stays.
func removeTree(dir string) {
	if syscall.Rmdir(dir) == nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	syscall.Rmdir(dir)
}

// OutOfMemory reports whether the tree has reached its limit on memory.
func (g *Group) OutOfMemory() bool {
	switch g.memory {
	case "":
		return false
	case g.Unified:
		return counter(g.memory, localEvents, "oom") > 0
	}
	return counter(g.memory, "memory.oom_control", "oom_kill") > 0
}

// localEvents counts the events of the group's own limit. It excludes processes that were killed because the machine or a parent group
// was out of memory.
const localEvents = "memory.events.local"

// OutOfPIDs reports whether the tree has reached its limit on processes.
func (g *Group) OutOfPIDs() bool {
	if g.pids == "" || counter(g.pids, "pids.events", "max") == 0 {
		return false
	}
	// gantry-launch sets the limit to 0 while it kills a tree. Forks that fail then are not the command's fault.
	most, _ := os.ReadFile(filepath.Join(g.pids, "pids.max"))
	return strings.TrimSpace(string(most)) != "0"
}

// Watch calls outOfMemory or outOfPIDs when the tree reaches that limit. The kernel itself would only refuse forks or kill the largest
// process, and leave the rest of the tree to cope. Each call is made on a goroutine that start starts; it ends at the latest when
// Remove is called.
func (g *Group) Watch(start func(func()), outOfMemory, outOfPIDs func()) {
	wait := func(fd int, reached func(fd uintptr) bool, call func()) {
		f := os.NewFile(uintptr(fd), "cgroup events")
		raw, err := f.SyscallConn()
		if err != nil {
			f.Close()
			return
		}
		g.files = append(g.files, f)
		start(func() {
			if raw.Read(reached) == nil {
				call()
			}
		})
	}
	// In version 2, an open file of counters gets a poll event when it changes. In version 1, only memory has a notification.
	changes := func(path, name string, call func()) {
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			wait(fd, func(fd uintptr) bool { return counterIn(int(fd), name) > 0 }, call)
		}
	}
	if g.pids != "" && g.pids == g.Unified {
		changes(filepath.Join(g.pids, "pids.events"), "max", outOfPIDs)
	}
	if g.memory != "" && g.memory == g.Unified {
		changes(filepath.Join(g.memory, localEvents), "oom", outOfMemory)
	}
	if g.memory != "" && g.memory != g.Unified {
		if fd, err := oomEvents(g.memory); err == nil {
			wait(fd, func(fd uintptr) bool {
				var b [8]byte
				n, err := unix.Read(int(fd), b[:])
				return err == nil && n == len(b)
			}, outOfMemory)
		}
	}
}

// oomEvents returns a descriptor that becomes readable when a group of version 1 is out of memory.
func oomEvents(dir string) (int, error) {
	control, err := unix.Open(filepath.Join(dir, "memory.oom_control"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(control)
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.event_control"), fmt.Appendf(nil, "%d %d", fd, control), 0); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// counter reads one line of a file of counters.
func counter(dir, file, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return parseCounter(b, name)
}

// counterIn reads one line of an open file of counters, and thereby resets its poll event.
func counterIn(fd int, name string) int64 {
	b := make([]byte, 512)
	n, _ := unix.Pread(fd, b, 0)
	return parseCounter(b[:max(n, 0)], name)
}

func parseCounter(b []byte, name string) int64 {
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}
