package launch

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups is where control groups can be made, and which limits they enforce: folders of version 2, whose controllers all are in
// one tree, or of version 1, where each has its own.
type cgroups struct {
	unified      string // folder of version 2; empty: none
	memory, pids bool   // its controllers that groups in it have
	memory1      string // our own group in the tree of version 1; only where version 2 doesn't have the controller
	pids1        string
}

// writable reports whether groups can be made in a folder, and processes be moved into and out of it.
func writable(dir, list string) bool {
	const wOK, xOK = 2, 1
	return isGroup(dir) && syscall.Access(dir, wOK|xOK) == nil && syscall.Access(filepath.Join(dir, list), wOK) == nil
}

func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// ownGroup returns the folder of our own group, of version 2 or, with a controller's name, in its tree of version 1, from the texts
// of /proc/self/cgroup and mountinfo.
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

// group is the control groups of one process. A limit without one is enforced otherwise.
type group struct {
	unified string   // folder of version 2
	first   []string // folders of version 1
	memory  string   // the one that bounds memory
	pids    string   // the one that bounds processes
	maxPids int64    // in force once the process runs

	files []*os.File // whose events say that a limit was reached
}

// prefix names groups of ours; behind it stand the host's number and its birth, by which another host sees that it is dead, and the
// namespace in which that is its number.
const prefix = "gantry-"

// groupName is the name of a process's groups.
func groupName(id string) string {
	return fmt.Sprintf("%s%d-%s.%s-%s", prefix, os.Getpid(), birth(os.Getpid()), pidNamespace(), id)
}

// make makes the groups that enforce limits, where there is a place for them.
func (g cgroups) make(id string, lim Limits) (_ group, err error) {
	out := group{maxPids: lim.MaxPids}
	defer func() {
		if err != nil {
			out.remove()
		}
	}()
	name := groupName(id)
	mkdir := func(place string) (string, error) {
		dir := filepath.Join(place, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("make a control group: %w", err)
		}
		return dir, nil
	}
	if lim.MemoryBytes > 0 && g.memory || lim.MaxPids > 0 && g.pids {
		if out.unified, err = mkdir(g.unified); err != nil {
			return group{}, err
		}
	}
	in := func(unified bool, place string) (string, error) {
		switch {
		case unified:
			return out.unified, nil
		case place == "":
			return "", nil
		}
		dir, err := mkdir(place)
		if err == nil && !slices.Contains(out.first, dir) {
			out.first = append(out.first, dir)
		}
		return dir, err
	}
	if lim.MemoryBytes > 0 {
		if out.memory, err = in(g.memory, g.memory1); err != nil {
			return group{}, err
		}
		if err = out.boundMemory(lim.MemoryBytes); err != nil {
			return group{}, fmt.Errorf("set up a control group: %w", err)
		}
	}
	if lim.MaxPids > 0 {
		if out.pids, err = in(g.pids, g.pids1); err != nil {
			return group{}, err
		}
		if out.pids != "" {
			if err = put(out.pids, "pids.max", max(out.maxPids, startPids)); err != nil {
				return group{}, fmt.Errorf("set up a control group: %w", err)
			}
		}
	}
	return out, nil
}

func put(dir, file string, v int64) error {
	return os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, v, 10), 0o644)
}

func (g *group) boundMemory(most int64) error {
	switch g.memory {
	case "":
		return nil
	case g.unified:
		put(g.memory, "memory.swap.max", 0)  // absent where there is no swap accounting
		put(g.memory, "memory.oom.group", 1) // what is left of a tree whose largest process was ended is of no use
		return put(g.memory, "memory.max", most)
	}
	if err := put(g.memory, "memory.limit_in_bytes", most); err != nil {
		return err
	}
	put(g.memory, "memory.memsw.limit_in_bytes", most) // as above
	return nil
}

// started puts the limit on processes into force, once what starts them has done so. It reports whether it came too late for that.
func (g *group) started() (beyond bool) {
	if g.pids == "" || g.maxPids >= startPids {
		return false
	}
	put(g.pids, "pids.max", g.maxPids)
	b, _ := os.ReadFile(filepath.Join(g.pids, "pids.current"))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n > g.maxPids
}

// remove removes groups that have no processes any more, and ends watching them.
func (g *group) remove() {
	for _, f := range g.files {
		f.Close()
	}
	for _, dir := range append(slices.Clone(g.first), g.unified) {
		if dir != "" {
			removeGroup(dir)
		}
	}
}

// removeGroup removes a group and those in it, which a command may have made where it could. One with processes stays.
func removeGroup(dir string) {
	if syscall.Rmdir(dir) == nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	syscall.Rmdir(dir)
}

func (g *group) outOfMemory() bool {
	switch g.memory {
	case "":
		return false
	case g.unified:
		return counter(g.memory, localEvents, "oom") > 0
	}
	return counter(g.memory, "memory.oom_control", "oom_kill") > 0
}

// localEvents are those of the group's own limit. What the machine or a group above ran out of, and what ended a process of ours for
// it, is not among them.
const localEvents = "memory.events.local"

func (g *group) outOfPids() bool {
	if g.pids == "" || counter(g.pids, "pids.events", "max") == 0 {
		return false
	}
	// The launcher forbids forks while it kills: then they fail for another reason.
	most, _ := os.ReadFile(filepath.Join(g.pids, "pids.max"))
	return strings.TrimSpace(string(most)) != "0"
}

// watch ends the process when one of its groups' limits is reached. The kernel alone would go on to refuse forks, or end the
// largest of its processes, and leave the others to make of it what they can.
func (g *group) watch(p *Process) {
	wait := func(f *os.File, limit string, reached func(fd uintptr) bool) {
		raw, err := f.SyscallConn()
		if err != nil {
			f.Close()
			return
		}
		g.files = append(g.files, f)
		p.l.work.Go(func() { // ends when remove closes the file
			if raw.Read(reached) == nil {
				p.reach(limit)
			}
		})
	}
	// With version 2 the kernel says by an event on its descriptor that a file has changed; with version 1 it does so for memory alone.
	changes := func(path, limit, name string) {
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			wait(os.NewFile(uintptr(fd), filepath.Base(path)), limit, func(fd uintptr) bool { return counterIn(int(fd), name) > 0 })
		}
	}
	if g.pids != "" && g.pids == g.unified {
		changes(filepath.Join(g.pids, "pids.events"), LimitPids, "max")
	}
	if g.memory != "" && g.memory == g.unified {
		changes(filepath.Join(g.memory, localEvents), LimitMemory, "oom")
	}
	if g.memory != "" && g.memory != g.unified {
		if fd, err := oomEvents(g.memory); err == nil {
			wait(os.NewFile(uintptr(fd), "oom"), LimitMemory, func(fd uintptr) bool {
				var b [8]byte
				n, err := unix.Read(int(fd), b[:])
				return err == nil && n == len(b)
			})
		}
	}
}

// oomEvents returns a descriptor that can be read when a group of version 1 is out of memory.
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

// sweep removes the groups of hosts that are dead, and whose launchers could not do it, with what is left in them. Those of hosts in
// another namespace of processes stay: their numbers say nothing here.
func (g cgroups) sweep() {
	for _, place := range []string{g.unified, g.memory1, g.pids1} {
		if place == "" {
			continue
		}
		dirs, _ := filepath.Glob(filepath.Join(place, prefix+"*"))
		for _, dir := range dirs {
			pid, rest, ok := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
			whose, _, ok2 := strings.Cut(rest, "-")
			born, namespace, known := strings.Cut(whose, ".")
			if n, err := strconv.Atoi(pid); !ok || !ok2 || err != nil || birth(n) == born {
				continue
			}
			if known && namespace != pidNamespace() {
				continue // it may be about to be used
			}
			if known {
				endGroup(dir)
			}
			removeGroup(dir)
		}
	}
}

// Bounds of ending what is left in a group: of what forks meanwhile the next round finds the children.
const (
	groupRounds = 20
	groupBound  = 200 * time.Millisecond // of a round; what is killed ends within a few milliseconds
)

// endGroup kills what runs in a group.
func endGroup(dir string) {
	put(dir, "cgroup.kill", 1) // version 2, from Linux 5.14 on; what is left below are the others, and those that are on their way out
	for range groupRounds {
		if !killAll(dir) {
			return
		}
	}
}

// killAll kills what is in a group now, and waits for its end. false: there was nothing.
func killAll(dir string) (some bool) {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var ending []unix.PollFd
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil || pid <= 0 { // 0: it is in a namespace that is not seen from here
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		// The number may have become another's since it was read.
		if now, err := os.ReadFile("/proc/" + f + "/cgroup"); err != nil || !bytes.Contains(now, []byte("/"+filepath.Base(dir)+"\n")) {
			continue
		}
		if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			ending = append(ending, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	some = len(ending) > 0
	for until := time.Now().Add(groupBound); len(ending) > 0; {
		n, err := unix.Poll(ending, int(max(0, time.Until(until).Milliseconds())))
		if err != nil && err != unix.EINTR || err == nil && n == 0 {
			break
		}
		ending = slices.DeleteFunc(ending, func(p unix.PollFd) bool { return p.Revents != 0 })
	}
	return some
}

// pidNamespace names the namespace in which our number is ours.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(name, "pid:[]")
}

// birth tells a process from another that had its number: when it was started, in the kernel's ticks; empty: there is none.
func birth(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if f := statFields(b); len(f) > 19 {
		return string(f[19])
	}
	return ""
}

// counter reads one line of a file of counters.
func counter(dir, file, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return counted(b, name)
}

// counterIn is counter for an open file, whose event it takes.
func counterIn(fd int, name string) int64 {
	b := make([]byte, 512)
	n, _ := unix.Pread(fd, b, 0)
	return counted(b[:max(n, 0)], name)
}

func counted(b []byte, name string) int64 {
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// Means says what enforces limits here; empty: nothing does.
type Means struct {
	Memory string `json:"memory,omitempty"`
	Pids   string `json:"pids,omitempty"`
}

// FindMeans looks for what enforces limits on this machine, as a launcher does.
func FindMeans() Means {
	g := findCgroups("")
	means := func(unified bool, first, otherwise string) string {
		switch {
		case unified:
			return "a control group (version 2)"
		case first != "":
			return "a control group (version 1)"
		}
		return otherwise
	}
	return Means{
		Memory: means(g.memory, g.memory1, "a limit on each process, and a look at all of them five times a second"),
		Pids:   means(g.pids, g.pids1, cmp.Or(userPids(), "a look at the processes five times a second")),
	}
}

func userPids() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return "a limit in the sandbox's own user namespace, and a look at the processes five times a second"
}
