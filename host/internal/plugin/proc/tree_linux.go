package proc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func readTable() (table, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	t := make(table, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, ok := readEntry(pid); ok {
			t[pid] = e
		}
	}
	return t, nil
}

func readEntry(pid int) (entry, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads the line of /proc/PID/stat. The name of the program, in parentheses, may hold anything.
func parseStat(pid int, b []byte) (entry, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return entry{}, false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return entry{}, false
	}
	e := entry{pid: pid, state: f[0][0]}
	var err [4]error
	e.parent, err[0] = strconv.Atoi(f[1])
	e.group, err[1] = strconv.Atoi(f[2])
	e.session, err[2] = strconv.Atoi(f[3])
	e.started, err[3] = strconv.ParseUint(f[19], 10, 64)
	return e, err == [4]error{}
}

// tree lists p and all that belongs to it.
func (t table) tree(p *Process) []int {
	var pids []int
	for pid := range t {
		if p.isolation == IsolationNamespace && pid != p.pid {
			if p.namespace == "" {
				if !t.descends(p.root(), pid) {
					continue
				}
			} else if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || ns != p.namespace {
				continue
			}
		} else if p.isolation != IsolationNamespace && !t.owns(p.root(), pid, carries) {
			continue
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// carries tells whether the process was started with this entry in its environment. Environments of other users can't be
// read, and aren't ours.
func carries(pid int, marker string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if string(kv) == marker {
			return true
		}
	}
	return false
}

// strayRounds bounds the hunt for processes that fork while they are hunted. Whoever wins that race is met again by the
// sweep at the next start of a host.
const strayRounds = 8

// killStrays kills everything of the tree except p itself, until nothing new turns up.
func (p *Process) killStrays() {
	hunt(func(t table) []entry {
		var found []entry
		for _, pid := range t.tree(p) {
			if pid != p.pid {
				found = append(found, t[pid])
			}
		}
		return found
	})
}

// hunt kills what find finds until that is nothing any more, and returns how many processes there were.
func hunt(find func(table) []entry) int {
	killed := map[entry]bool{}
	for range strayRounds {
		t, err := readTable()
		if err != nil {
			break
		}
		var prey []entry
		for _, e := range find(t) {
			if e.state != 'Z' && e.pid != os.Getpid() {
				prey = append(prey, e)
				killed[entry{pid: e.pid, started: e.started}] = true
			}
		}
		if len(prey) == 0 {
			break
		}
		killExactly(prey)
	}
	return len(killed)
}

// deathPatience is how long killed processes are waited for. The kernel needs well under a millisecond for each, unless
// one is in the middle of something that can't be interrupted.
const deathPatience = 100 * time.Millisecond

// killExactly kills the processes that were seen, and no later ones that got their numbers, and waits for their ends.
func killExactly(prey []entry) {
	var wait []unix.PollFd
	for _, e := range prey {
		fd, err := unix.PidfdOpen(e.pid, 0) // holds on to whichever process has the number now
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if now, ok := readEntry(e.pid); ok && now.started == e.started && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			wait = append(wait, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	for until := time.Now().Add(deathPatience); len(wait) > 0; {
		n, err := unix.Poll(wait, int(max(0, time.Until(until).Milliseconds())))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		wait = slices.DeleteFunc(wait, func(p unix.PollFd) bool { return p.Revents != 0 })
	}
}

// KillMarked kills every process whose environment holds an entry that starts with prefix, and returns how many there
// were. It is for what a host that was killed left behind where there are no namespaces.
func KillMarked(prefix string) int {
	return hunt(func(t table) []entry {
		var found []entry
		for pid, e := range t {
			if carriesPrefix(pid, prefix) {
				found = append(found, e)
			}
		}
		return found
	})
}

func carriesPrefix(pid int, prefix string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.HasPrefix(kv, []byte(prefix)) {
			return true
		}
	}
	return false
}

func residentBytes(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("unexpected statm of process %d", pid)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

func proportionalBytes(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				kb, _ := strconv.ParseInt(f[0], 10, 64)
				return kb * 1024
			}
		}
	}
	return 0
}
