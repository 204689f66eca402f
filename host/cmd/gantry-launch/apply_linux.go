package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// apply is the second stage: it limits itself and becomes the target. It does not return. It says Started when only
// becoming the target is left; its socket is closed by that.
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
	path, err := syscall.BytePtrFromString(order.Path)
	if err != nil {
		fail(control.ApplyFD, control.OpExec, err)
	}
	argv, err := syscall.SlicePtrFromStrings(order.Argv)
	if err != nil {
		fail(control.ApplyFD, control.OpExec, err)
	}
	env, err := syscall.SlicePtrFromStrings(order.Env)
	if err != nil {
		fail(control.ApplyFD, control.OpExec, err)
	}
	started := control.Started{}.Append(nil)
	// The Go runtime has raised the soft limit on descriptors for itself. Exec takes that back before it tries, so one
	// that fails leaves the limit as it was inherited.
	syscall.Exec("", nil, nil)
	// From here on nothing is allocated: a limit on memory would end us, not the target. For the same reason this is
	// not syscall.Exec, which converts its arguments.
	for _, l := range order.Rlimits {
		if err := limit(l); err != nil {
			fail(control.ApplyFD, control.OpLimit, err)
		}
	}
	send(control.ApplyFD, started)
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	fail(control.ApplyFD, control.OpExec, errno)
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
