//go:build linux || darwin

package limit

import (
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// cpuSlack is the processor time between SIGXCPU and SIGKILL, in seconds.
const cpuSlack = 2

func rlimit(resource int, soft, hard int64) control.Rlimit {
	return control.Rlimit{Resource: uint32(resource), Soft: uint64(soft), Hard: uint64(hard)}
}

// rlimits returns the limits of single processes that every system enforces.
func (s Set) rlimits() (out []control.Rlimit) {
	if s.OpenFiles > 0 {
		out = append(out, rlimit(syscall.RLIMIT_NOFILE, s.OpenFiles, s.OpenFiles))
	}
	if s.FileBytes > 0 {
		out = append(out, rlimit(syscall.RLIMIT_FSIZE, s.FileBytes, s.FileBytes))
	}
	if s.NoCore {
		out = append(out, rlimit(syscall.RLIMIT_CORE, 0, 0))
	}
	if s.CPUSeconds > 0 {
		out = append(out, rlimit(syscall.RLIMIT_CPU, s.CPUSeconds, s.CPUSeconds+cpuSlack))
	}
	return out
}

// endedBy returns the limit of a single process that ended the first process of a tree; empty: none did.
func (s Set) endedBy(u Usage) string {
	// A shell that runs the rest of its script reports the signal that ended a child in its own status.
	by := func(sig syscall.Signal) bool { return u.Signal == int(sig) || u.Code == 128+int(sig) }
	switch {
	case s.FileBytes > 0 && by(syscall.SIGXFSZ):
		return File
	case s.CPUSeconds > 0 && by(syscall.SIGXCPU),
		s.CPUSeconds > 0 && by(syscall.SIGKILL) && u.CPU >= time.Duration(s.CPUSeconds+cpuSlack)*time.Second:
		return Time
	}
	return ""
}
