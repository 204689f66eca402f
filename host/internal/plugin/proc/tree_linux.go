package proc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// entry is what /proc/PID/stat says about the place of a process.
type entry struct {
	pid, parent, group, session int
	state                       byte
	started                     uint64 // in clock ticks since boot: with the pid it names one process for ever
}

// table is every process that the host sees at one moment.
type table map[int]entry

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

// owns tells whether pid is p, a descendant of it, in its session, or carries its marker.
func (t table) owns(p *Process, pid int) bool {
	for at, steps := pid, 0; at > 1 && steps <= len(t); steps++ {
		if at == p.pid {
			return true
		}
		e, ok := t[at]
		if !ok {
			break
		}
		if e.session == p.pid {
			return true
		}
		at = e.parent
	}
	return p.marker != "" && carries(pid, p.marker)
}

// tree lists p and all that belongs to it.
func (t table) tree(p *Process) []int {
	var pids []int
	for pid := range t {
		if p.isolation == IsolationNamespace && pid != p.pid {
			if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || ns != p.namespace {
				continue
			}
		} else if p.isolation != IsolationNamespace && !t.owns(p, pid) {
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
	for range strayRounds {
		t, err := readTable()
		if err != nil {
			return
		}
		found := 0
		for _, pid := range t.tree(p) {
			if e := t[pid]; pid != p.pid && e.state != 'Z' && pid != os.Getpid() {
				killExactly(e)
				found++
			}
		}
		if found == 0 {
			return
		}
	}
}

// killExactly kills the process that e describes, and no later one that got its number.
func killExactly(e entry) {
	p, err := os.FindProcess(e.pid) // holds on to whichever process has the number now
	if err != nil {
		return
	}
	defer func() { _ = p.Release() }()
	if now, ok := readEntry(e.pid); !ok || now.started != e.started {
		return
	}
	_ = p.Signal(syscall.SIGKILL)
}

// KillMarked kills every process whose environment holds an entry that starts with prefix, and returns how many there
// were. It is for what a host that was killed left behind where there are no namespaces.
func KillMarked(prefix string) int {
	killed := map[entry]bool{}
	for range strayRounds {
		t, err := readTable()
		if err != nil {
			break
		}
		found := false
		for pid, e := range t {
			if pid == os.Getpid() || e.state == 'Z' || !carriesPrefix(pid, prefix) {
				continue
			}
			killExactly(e)
			killed[entry{pid: e.pid, started: e.started}] = true
			found = true
		}
		if !found {
			break
		}
	}
	return len(killed)
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
