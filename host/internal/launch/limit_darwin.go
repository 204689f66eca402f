package launch

import (
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// cpuSlack is the processor time between SIGXCPU and SIGKILL.
const cpuSlack = 2

// enforceable says which of the grant's limits can't be enforced on this machine.
func (l *Launcher) enforceable(g Grant) error { return notByRlimit("macOS", g.Limits) }

// limit prepares what enforces the grant's limits.
func (p *Process) limit(c *Confinement) error {
	lim := p.spec.Grant.Limits
	if err := p.l.enforceable(p.spec.Grant); err != nil {
		return err
	}
	add := func(resource int, soft, hard int64) {
		c.Rlimits = append(c.Rlimits, control.Rlimit{Resource: uint32(resource), Soft: uint64(soft), Hard: uint64(hard)})
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
	return nil
}

// limitHit says which limit ended the process.
func (p *Process) limitHit(e Exit) string {
	// A shell that goes on to the end of its line reports the signal of what it had started in its status.
	ended := func(sig syscall.Signal) bool { return e.Signal == sig || e.Code == 128+int(sig) }
	lim := p.spec.Grant.Limits
	switch {
	case lim.FileBytes > 0 && ended(syscall.SIGXFSZ):
		return LimitFile
	case lim.CPUSeconds > 0 && ended(syscall.SIGXCPU),
		lim.CPUSeconds > 0 && ended(syscall.SIGKILL) && e.User+e.System >= time.Duration(lim.CPUSeconds+cpuSlack)*time.Second:
		return LimitTime
	}
	return ""
}
