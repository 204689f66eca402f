package plugintest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// treeSupported reports whether processes can be listed and measured.
const treeSupported = true

// marked lists the running processes that have the variable in their environment.
func marked(variable string) []int {
	var out []int
	for _, pid := range pids() {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if string(v) == variable {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

func pids() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// descendants lists the children of a process, their children and so on.
func descendants(root int) []int {
	children := map[int][]int{}
	for _, pid := range pids() {
		if s := stat(pid); s.parent > 0 {
			children[s.parent] = append(children[s.parent], pid)
		}
	}
	var out []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		out = append(out, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return out
}

// alive reports whether the process exists and is not a zombie.
func alive(pid int) bool {
	s := stat(pid)
	return s.state != "" && s.state != "Z" && s.state != "X"
}

type procStat struct {
	state       string
	parent      int
	childFaults int64 // minor page faults of children that have been reaped
}

// childFaults counts the page faults of the children of a process that have ended.
func childFaults(pid int) int64 { return stat(pid).childFaults }

func stat(pid int) procStat {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}
	}
	// The name in parentheses may contain any characters, including parentheses.
	_, after, found := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ")
	f := strings.Fields(after)
	if !found || len(f) < 2 {
		return procStat{}
	}
	parent, _ := strconv.Atoi(f[1])
	s := procStat{state: f[0], parent: parent}
	if len(f) > 8 {
		s.childFaults, _ = strconv.ParseInt(f[8], 10, 64)
	}
	return s
}

// resident returns the resident memory of the processes in bytes.
func resident(pids []int) int64 {
	var pages int64
	for _, pid := range pids {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
		if err != nil {
			continue
		}
		if f := strings.Fields(string(b)); len(f) > 1 {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			pages += n
		}
	}
	return pages * int64(os.Getpagesize())
}
