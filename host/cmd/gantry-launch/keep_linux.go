//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// keep is a stage: the first process of a sandbox that is reused for several targets. It forks each target, and reports that the sandbox
// is free when nothing of the last one is left: no process, and nothing else that the next target could find. If something is left keep
// ends, and the kernel ends everything in the sandbox with it. It does not return.
//
// Landlock, the filter of system calls and limits apply only to the child, so no target may control this process: it can't be inspected,
// and the first process of a PID namespace receives no signal from it that it does not handle.
func keep() {
	const prSetDumpable = 4
	runtime.LockOSThread() // targets inherit from this thread
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0); errno != 0 {
		fail(control.ApplyFD, control.OpPrepare, errno)
	}
	resetSignals()
	ready()
	// Shared memory, in which a child reports why it can't execute its target.
	page, err := syscall.Mmap(-1, 0, syscall.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		fail(control.ApplyFD, control.OpPrepare, err)
	}
	failed := (*failure)(unsafe.Pointer(&page[0]))
	before := traces()
	send(control.ApplyFD, control.Prepared{}.Append(nil))
	for {
		_, frame, received, err := receiveOrder(control.ApplyFD)
		if err != nil {
			syscall.Exit(1)
		}
		order, err := frame.Order()
		if err != nil || order.Box == nil || len(received) != descriptors(order) {
			fail(control.ApplyFD, control.OpPrepare, syscall.EPROTO)
		}
		exited, used, alone := serveTarget(order, received, failed)
		if !order.Reusable || !alone || !same(before, traces()) {
			if exited.Signal > 0 {
				exited.Code = 128 + exited.Signal // as bubblewrap reports it
			}
			syscall.Exit(int(exited.Code))
		}
		send(control.ApplyFD, control.Free{}.Append(used.Append(exited.Append(nil))))
	}
}

// failure is why a child has not executed its target; it has if errno is 0.
type failure struct {
	op    control.Op
	errno syscall.Errno
}

// serveTarget starts a target and returns once it has ended. alone: it has left no process.
func serveTarget(o *control.Order, received []int, failed *failure) (exited control.Exited, used control.Used, alone bool) {
	t := plan(o, received)
	*failed = failure{}
	pid, errno := forkTarget(t, failed)
	runtime.KeepAlive(t)
	if errno == 0 {
		errno = failed.errno
	} else {
		failed.op = control.OpPrepare
	}
	if errno != 0 {
		fail(control.ApplyFD, failed.op, errno)
	}
	for _, fd := range received[:control.Targets] {
		syscall.Close(fd)
	}
	if t.ruleset >= 0 {
		syscall.Close(t.ruleset)
	}
	syscall.Chdir("/") // don't keep the target's folder busy
	introduce(int(pid))
	for ended := false; ; {
		const all, noWait = 0x40000000, syscall.WNOHANG // __WALL: also children that end without a signal
		options := all
		if ended {
			options |= noWait
		}
		var status syscall.WaitStatus
		var usage syscall.Rusage
		who, err := syscall.Wait4(-1, &status, options, &usage)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD
			return exited, used, ended
		case who == 0:
			return exited, used, false
		}
		user, system, size := uint64(usage.Utime.Nano()/1000), uint64(usage.Stime.Nano()/1000), uint64(usage.Maxrss)
		used.UserMicros += user
		used.SystemMicros += system
		used.MaxRSSKiB = max(used.MaxRSSKiB, size)
		if who == int(pid) {
			ended = true
			exited = control.Exited{UserMicros: user, SystemMicros: system, MaxRSSKiB: size}
			if status.Signaled() {
				exited.Signal = uint32(status.Signal())
			} else {
				exited.Code = uint32(status.ExitStatus())
			}
		}
	}
}

// introduce reports that the target runs, and sends a pidfd of it. It waits for the acknowledgement before anything is reaped, so that
// the id of the target can't be reused.
func introduce(pid int) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		fail(control.ApplyFD, control.OpConfine, err)
	}
	err = syscall.Sendmsg(control.ApplyFD, control.Started{PID: uint32(pid)}.Append(nil), syscall.UnixRights(fd), nil, syscall.MSG_NOSIGNAL)
	syscall.Close(fd)
	if err != nil {
		syscall.Exit(1)
	}
	if frame, err := receive(control.ApplyFD).Next(); err != nil || frame.Kind != control.KindStarted {
		syscall.Exit(1)
	}
}

// forkTarget returns only in the parent, after the child has executed its target or ended.
//
//go:norace
//go:nosplit
func forkTarget(t *target, failed *failure) (uintptr, syscall.Errno) {
	const cloneVfork = 0x4000
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, cloneVfork|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	failed.op, failed.errno = execute(t)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 1, 0, 0)
	}
}

// resetSignals removes the Go runtime's signal handlers, so that the kernel drops signals from the sandbox's processes, and that children
// start without handlers.
func resetSignals() {
	const last, size = 64, 8
	var byDefault [4]uint64 // handler, flags, restorer, mask, in the kernel's order of any architecture: all zero
	for sig := uintptr(1); sig <= last; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, size, 0, 0)
	}
}
