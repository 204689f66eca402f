package main

import (
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// apply is the second stage: it limits itself and becomes the target. It does not return. Success is the silent end of
// its socket, which is closed by becoming the target.
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
	for _, l := range order.Rlimits {
		if err := limit(l); err != nil {
			fail(control.ApplyFD, control.OpLimit, err)
		}
	}
	// From here on little may be allocated: the limit on memory counts for us as well. What Exec needs fits into the
	// part of the heap that is mapped since the start.
	fail(control.ApplyFD, control.OpExec, syscall.Exec(order.Path, order.Argv, order.Env))
}

// limit lowers a limit. Where the one in force is lower already it stays.
func limit(l control.Rlimit) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(int(l.Resource), &now); err != nil {
		return err
	}
	next := syscall.Rlimit{Max: min(l.Hard, now.Max)}
	next.Cur = min(l.Soft, next.Max)
	return syscall.Setrlimit(int(l.Resource), &next)
}
