//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// keep is the first process of a box that serves one target after another. It forks each of them, and says that the box is free when
// nothing of the last one is left: no process, and nothing else that another would find. When something is, it ends, and the kernel ends
// everything in the box with it. It does not return.
//
// What is put on a target (Landlock, the filter of system calls, limits) is put on the child alone. So no target may reach its keeper:
// the kernel lets nobody look into it, and a first process gets no signal from its own box that it has not asked for.
func keep() {
	const prSetDumpable = 4
	runtime.LockOSThread() // what a target inherits is this thread's
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0); errno != 0 {
		fail(control.ApplyFD, control.OpPrepare, errno)
	}
	forgetSignals()
	ready()
	// Shared with each child until it becomes its target: it says there why it can't.
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
		if !order.Again || !alone || !same(before, traces()) {
			if exited.Signal > 0 {
				exited.Code = 128 + exited.Signal // as bubblewrap says it
			}
			syscall.Exit(int(exited.Code))
		}
		send(control.ApplyFD, control.Free{}.Append(used.Append(exited.Append(nil))))
	}
}

// failure is why a child has not become its target; without an errno it has.
type failure struct {
	op    control.Op
	errno syscall.Errno
}

// serveTarget starts a target and returns when it has ended. alone: it has left nobody.
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

// introduce says that the target runs, and hands over what names it; nobody is reaped before that was understood, so that the number
// can't be a stranger's.
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

// forkTarget returns in the parent alone, when the child has become its target or ended.
//
//go:norace
//go:nosplit
func forkTarget(t *target, failed *failure) (uintptr, syscall.Errno) {
	const cloneVfork = 0x4000
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, cloneVfork|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	failed.op, failed.errno = become(t)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 1, 0, 0)
	}
}

// forgetSignals takes back what the Go runtime does on signals: so the kernel drops those of the box's own processes, and a child has
// nothing to take back.
func forgetSignals() {
	const last, size = 64, 8
	var byDefault [4]uint64 // handler, flags, restorer, mask, in the kernel's order of any architecture: all zero
	for sig := uintptr(1); sig <= last; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, size, 0, 0)
	}
}
