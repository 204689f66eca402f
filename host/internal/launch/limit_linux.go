package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

const (
	// cpuSlack is the processor time between SIGXCPU and SIGKILL.
	cpuSlack = 2
	// boxPids is how many processes of a tree make its box: they are not the command's.
	boxPids = 2
	// startPids is what a group lets a start have, whatever its limit: the launcher's second stage has threads of its own.
	startPids = 16
	// spareThreads is by how many the user's other programs may grow before a command outside of a box can't fork any more. It keeps a
	// bomb that nobody but us counts from growing faster than we can look: on a slow machine it was never caught up with.
	spareThreads = 1024
	// rlimitNproc has the same number on every architecture that Go knows but mips and sparc.
	rlimitNproc = 6
)

// enforceable has no objections: what no control group bounds is looked at.
func (*Launcher) enforceable(Grant) error { return nil }

// grouped reports whether limits are enforced by groups.
func (l *Launcher) grouped(lim Limits) bool {
	if lim.MemoryBytes <= 0 && lim.MaxPids <= 0 {
		return false
	}
	g := l.groups()
	return lim.MemoryBytes > 0 && (g.memory || g.memory1 != "") || lim.MaxPids > 0 && (g.pids || g.pids1 != "")
}

// limit prepares what enforces the grant's limits.
func (p *Process) limit(c *Confinement) error {
	lim := p.spec.Grant.Limits
	add := func(resource int, soft, hard int64) {
		c.Rlimits = append(c.Rlimits, control.Rlimit{Resource: uint32(resource), Soft: uint64(soft), Hard: uint64(hard)})
	}
	if c.Box != nil && lim.MaxPids > 0 {
		lim.MaxPids += boxPids
	}
	if lim.MemoryBytes > 0 || lim.MaxPids > 0 {
		var err error
		if p.group, err = p.l.groups().make(p.id, lim); err != nil {
			return fmt.Errorf("limit the process: %w", err)
		}
		p.group.watch(p)
	}
	p.looked = looked{cpu: time.Duration(lim.CPUSeconds) * time.Second}
	if p.group.memory == "" {
		p.looked.memory = lim.MemoryBytes
	}
	if p.group.pids != p.group.unified {
		p.looked.group = p.group.pids
	}
	if p.group.pids == "" {
		p.looked.pids = lim.MaxPids
		if lim.MaxPids > 0 && os.Geteuid() != 0 { // root is not bound by it
			most := lim.MaxPids // counted in the box's own user namespace
			if c.Box == nil {
				most += threads() + spareThreads // counted with all else that is the user's
			}
			add(rlimitNproc, most, most)
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
	if p.looked.memory > 0 {
		add(syscall.RLIMIT_DATA, lim.MemoryBytes, lim.MemoryBytes)
	}
	if lim.AddressSpaceBytes > 0 {
		add(syscall.RLIMIT_AS, lim.AddressSpaceBytes, lim.AddressSpaceBytes)
	}
	return nil
}

// threads is how many there are on the machine.
func threads() int64 {
	b, _ := os.ReadFile("/proc/loadavg") // 0.20 0.18 0.12 1/80 11206
	if f := strings.Fields(string(b)); len(f) > 3 {
		_, all, _ := strings.Cut(f[3], "/")
		n, _ := strconv.ParseInt(all, 10, 64)
		return n
	}
	return 0
}

// limitHit says which limit ended the process.
func (p *Process) limitHit(e Exit) string {
	p.mu.Lock()
	reached := p.mu.limit
	p.mu.Unlock()
	if reached != "" {
		return reached
	}
	// A shell that goes on to the end of its line reports the signal of what it had started in its status.
	ended := func(sig syscall.Signal) bool { return e.Signal == sig || e.Code == 128+int(sig) }
	lim := p.spec.Grant.Limits
	switch {
	case e.Code == 0:
	case p.group.outOfMemory():
		return LimitMemory
	case p.group.outOfPids():
		return LimitPids
	case lim.FileBytes > 0 && ended(syscall.SIGXFSZ):
		return LimitFile
	case lim.CPUSeconds > 0 && ended(syscall.SIGXCPU),
		lim.CPUSeconds > 0 && ended(syscall.SIGKILL) && e.User+e.System >= time.Duration(lim.CPUSeconds+cpuSlack)*time.Second:
		return LimitTime
	}
	return ""
}
