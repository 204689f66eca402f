//go:build unix

package plugintest

import (
	"os"
	"os/exec"
	"syscall"
)

// detach starts the process in a session of its own: without a terminal, and in a group that can be killed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func killPID(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
