//go:build darwin || (linux && family)

package main

import (
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// apply is the second stage, in the sandbox if there is one: it limits itself and executes the target. It does not return. It sends
// Started before the last step, the execution, which closes its socket.
func apply() {
	syscall.CloseOnExec(control.ApplyFD)
	frame, err := receive(control.ApplyFD).Next()
	if err != nil {
		syscall.Exit(1)
	}
	order, err := frame.Order()
	if err != nil {
		fail(control.ApplyFD, control.OpPrepare, syscall.EPROTO)
	}
	if order.Terminal {
		if err := takeTerminal(control.TargetFD); err != nil {
			fail(control.ApplyFD, control.OpTerminal, err)
		}
	}
	if err := syscall.Chdir(order.Cwd); err != nil {
		fail(control.ApplyFD, control.OpChdir, err)
	}
	path, err := lookPath(order.Argv[0], order.Env)
	if err != nil {
		fail(control.ApplyFD, control.OpExec, err)
	}
	for i := range control.Targets {
		if err := syscall.Dup2(control.TargetFD+i, i); err != nil {
			fail(control.ApplyFD, control.OpPrepare, err)
		}
	}
	closeFrom(control.TargetFD)
	for _, l := range order.Rlimits {
		if err := limit(l); err != nil {
			fail(control.ApplyFD, control.OpLimit, err)
		}
	}
	send(control.ApplyFD, control.Started{}.Append(nil))
	fail(control.ApplyFD, control.OpExec, syscall.Exec(path, order.Argv, order.Env))
}

// limit lowers a limit.
func limit(l control.Rlimit) error {
	next, err := lower(l)
	if err != nil {
		return err
	}
	return syscall.Setrlimit(int(l.Resource), &next)
}
