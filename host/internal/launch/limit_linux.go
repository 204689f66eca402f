package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// cpuSlack is the processor time between SIGXCPU and SIGKILL.
const cpuSlack = 2

// enforceable says which of the grant's limits can't be enforced on this machine.
func (l *Launcher) enforceable(g Grant) error {
	if g.Limits.MaxPids > 0 && !l.groups().pids {
		return &UnsupportedError{
			Limit: "pids",
			What:  "the limit on processes can't be enforced here: there is no cgroup v2 with the pids controller that may be written",
			Next:  "remove the limit, or start gantry where one is delegated to it (for example with systemd-run --user --scope -p Delegate=yes)",
		}
	}
	return nil
}

// limit prepares what enforces the grant's limits.
func (p *Process) limit(c *Confinement) error {
	lim := p.spec.Grant.Limits
	add := func(resource int, soft, hard int64) {
		c.Rlimits = append(c.Rlimits, control.Rlimit{Resource: uint32(resource), Soft: uint64(soft), Hard: uint64(hard)})
	}
	memoryByGroup := false
	if err := p.l.enforceable(p.spec.Grant); err != nil {
		return err
	}
	if lim.MemoryBytes > 0 || lim.MaxPids > 0 {
		groups := p.l.groups()
		memoryByGroup = lim.MemoryBytes > 0 && groups.memory
		if memoryByGroup || lim.MaxPids > 0 {
			var err error
			if p.group, err = groups.make(p.id, lim); err != nil {
				return fmt.Errorf("limit the process: %w", err)
			}
		}
	}
	if lim.OpenFiles > 0 {
		add(syscall.RLIMIT_NOFILE, lim.OpenFiles, lim.OpenFiles)
	}
	if lim.FileBytes > 0 {
		add(syscall.RLIMIT_FSIZE, lim.FileBytes, lim.FileBytes)
	}
	if lim.NoCore {
		add(syscall.RLIMIT_CORE, 0, 0)
	}
	if lim.CPUSeconds > 0 {
		add(syscall.RLIMIT_CPU, lim.CPUSeconds, lim.CPUSeconds+cpuSlack)
	}
	// Memory last: from then on the second stage of the launcher is under it, too.
	if lim.MemoryBytes > 0 && !memoryByGroup {
		add(syscall.RLIMIT_DATA, lim.MemoryBytes, lim.MemoryBytes)
	}
	if lim.AddressSpaceBytes > 0 {
		add(syscall.RLIMIT_AS, lim.AddressSpaceBytes, lim.AddressSpaceBytes)
	}
	return nil
}

// limitHit says which limit ended the process.
func (p *Process) limitHit(e Exit) string {
	lim := p.spec.Grant.Limits
	if p.group != "" {
		if lim.MemoryBytes > 0 && e.Signal == syscall.SIGKILL && counter(p.group, "memory.events", "oom_kill") > 0 {
			return "memory"
		}
		if lim.MaxPids > 0 && e.Code != 0 && counter(p.group, "pids.events", "max") > 0 {
			return "pids"
		}
	}
	if lim.CPUSeconds > 0 {
		hard := time.Duration(lim.CPUSeconds+cpuSlack) * time.Second
		if e.Signal == syscall.SIGXCPU || e.Signal == syscall.SIGKILL && e.User+e.System >= hard {
			return "time"
		}
	}
	return ""
}

// cgroups is a folder of cgroup v2 in which we may make groups, with the controllers that these then have.
type cgroups struct {
	dir          string
	memory, pids bool
}

// findCgroups looks for the place: the given folder, or the parent of the host's own group. (Beside, not below: a group
// with processes can't give controllers to groups below it.)
func findCgroups(dir string) cgroups {
	switch dir {
	case "none":
		return cgroups{}
	case "":
		self, _ := os.ReadFile("/proc/self/cgroup")
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		dir = ownGroup(string(self), string(mounts))
		if dir == "" {
			return cgroups{}
		}
		if parent := filepath.Dir(dir); isGroup(parent) {
			dir = parent
		}
	}
	const wOK, xOK = 2, 1
	if !isGroup(dir) || syscall.Access(dir, wOK|xOK) != nil || syscall.Access(filepath.Join(dir, "cgroup.procs"), wOK) != nil {
		return cgroups{}
	}
	given, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	g := cgroups{dir: dir}
	for name := range strings.FieldsSeq(string(given)) {
		g.memory = g.memory || name == "memory"
		g.pids = g.pids || name == "pids"
	}
	return g
}

func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}

// ownGroup returns the folder of our own group of cgroup v2, from the texts of /proc/self/cgroup and mountinfo.
func ownGroup(self, mounts string) string {
	own := ""
	for line := range strings.Lines(self) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if own == "" {
		return ""
	}
	for line := range strings.Lines(mounts) {
		// 29 23 0:26 ROOT POINT options ... - cgroup2 source options
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if !ok || len(fields) < 5 || !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		if below, ok := strings.CutPrefix(own, fields[3]); ok {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// make makes a group with limits.
func (g cgroups) make(name string, lim Limits) (string, error) {
	dir := filepath.Join(g.dir, "gantry-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a control group: %w", err)
	}
	set := func(file string, v int64) error {
		return os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, v, 10), 0o644)
	}
	var err error
	if lim.MemoryBytes > 0 && g.memory {
		err = set("memory.max", lim.MemoryBytes)
		set("memory.swap.max", 0) // absent where there is no swap accounting
	}
	if lim.MaxPids > 0 && err == nil {
		err = set("pids.max", lim.MaxPids)
	}
	if err != nil {
		removeCgroup(dir)
		return "", fmt.Errorf("set up a control group: %w", err)
	}
	return dir, nil
}

// removeCgroup removes a group that has no processes any more.
func removeCgroup(dir string) { syscall.Rmdir(dir) }

// counter reads one line of a file of counters.
func counter(group, file, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(group, file))
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}
