// Package procfs reads Linux's process table, and kills processes that were found in it.
//
// It owns: the format of the files in /proc, and signals that can't hit a process that has taken over a process id. It must not know:
// whose processes these are.
//
// Start with [Read].
package procfs

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of processor time in the process table. It is the same on every architecture that Go supports.
const tick = time.Second / 100

// Stat is the state of one process, from /proc/PID/stat.
type Stat struct {
	PID, Parent, Group, Session int

	State    byte // 'Z': a zombie
	Threads  int64
	Resident int64         // bytes
	CPU      time.Duration // of the process and of the children that it has reaped
	Started  uint64        // in ticks since the machine was booted; together with PID it identifies a process
}

// Read returns the state of a process. It reports false if there is no such process.
func Read(pid int) (Stat, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}
	return parse(pid, b)
}

// parse parses a line of /proc/PID/stat. Its fields are counted from the end of the program's name, which is in parentheses and may
// contain any character.
func parse(pid int, b []byte) (Stat, bool) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return Stat{}, false
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 22 {
		return Stat{}, false
	}
	valid := true
	n := func(i int) int64 {
		v, err := strconv.ParseInt(string(f[i]), 10, 64)
		valid = valid && err == nil
		return v
	}
	s := Stat{
		PID: pid, State: f[0][0], Parent: int(n(1)), Group: int(n(2)), Session: int(n(3)),
		CPU: time.Duration(n(11)+n(12)+n(13)+n(14)) * tick, Threads: n(17), Started: uint64(n(19)),
		Resident: n(21) * int64(os.Getpagesize()),
	}
	return s, valid
}

// PIDs returns the ids of all processes.
func PIDs() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Children is the states of all processes, by the id of their parent.
type Children map[int][]Stat

// ReadChildren reads the whole process table. What can't be read is empty.
func ReadChildren() Children {
	pids, _ := PIDs()
	c := make(Children)
	for _, pid := range pids {
		if s, ok := Read(pid); ok {
			c[s.Parent] = append(c[s.Parent], s)
		}
	}
	return c
}

// Tree returns the process root and its descendants, parents before their children. The first element is the zero Stat if root has
// ended.
func (c Children) Tree(root int) []Stat {
	first, _ := Read(root)
	tree := append([]Stat{first}, c[root]...)
	for i := 1; i < len(tree); i++ {
		tree = append(tree, c[tree[i].PID]...)
	}
	return tree
}

// Proportional returns the memory of a process in bytes, where a page that n processes share counts as 1/n. The kernel computes it
// on demand, which takes longer than reading Stat.Resident.
func Proportional(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, nil
}

// Kill kills those processes that same confirms, and waits up to limit for them to end. It returns how many it has killed. same is
// called with a handle open on the process that has the id now, so that id can't pass to another process in between.
func Kill(pids []int, same func(pid int) bool, limit time.Duration) (killed int) {
	var ending []unix.PollFd
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if same(pid) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			ending = append(ending, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	killed = len(ending)
	for until := time.Now().Add(limit); len(ending) > 0; {
		n, err := unix.Poll(ending, int(max(0, time.Until(until).Milliseconds())))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		ending = slices.DeleteFunc(ending, func(p unix.PollFd) bool { return p.Revents != 0 })
	}
	return killed
}
