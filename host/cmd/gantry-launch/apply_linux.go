//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// apply is the second stage: it limits and encloses itself and becomes the target. It does not return. It says Started when
// only becoming the target is left; its socket is closed by that. In a box it may wait for its order.
func apply() {
	runtime.LockOSThread() // what follows binds one thread, the one that becomes the target
	syscall.CloseOnExec(control.ApplyFD)
	send(control.ApplyFD, control.Prepared{}.Append(nil))
	_, frame, target, err := receiveOrder(control.ApplyFD)
	if err != nil {
		syscall.Exit(1)
	}
	order, err := frame.Order()
	if err != nil || order.Box != nil && len(target) != descriptors(order) {
		fail(control.ApplyFD, control.OpPrepare, syscall.EPROTO)
	}
	found := order.Path
	if order.Box != nil {
		found = inside(order, target)
	}
	path, err := syscall.BytePtrFromString(found)
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
	var rules program
	if x := order.Box; x != nil && len(x.Filter) > 0 {
		rules = program{count: uint16(len(x.Filter) / 8), first: &x.Filter[0]}
	}
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
	if rules.count > 0 {
		if errno := filter(&rules); errno != 0 {
			fail(control.ApplyFD, control.OpConfine, errno)
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	fail(control.ApplyFD, control.OpExec, errno)
}

// inside does in the box what the first stage does for a target without one, and puts the box's inner part on. It returns
// the program's path.
func inside(o *control.Order, target []int) string {
	if _, err := syscall.Setsid(); err != nil {
		fail(control.ApplyFD, control.OpPrepare, err)
	}
	if o.Terminal {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(target[0]), syscall.TIOCSCTTY, 0); errno != 0 {
			fail(control.ApplyFD, control.OpTerminal, errno)
		}
	}
	if err := syscall.Chdir(o.Cwd); err != nil {
		fail(control.ApplyFD, control.OpChdir, err)
	}
	path, err := lookPath(o.Argv[0], o.Env)
	if err != nil {
		fail(control.ApplyFD, control.OpExec, err)
	}
	for i, fd := range target[:control.Targets] {
		if err := syscall.Dup3(fd, i, 0); err != nil {
			fail(control.ApplyFD, control.OpPrepare, err)
		}
	}
	if o.Box.Listen {
		if err := listen(target[control.Targets]); err != nil {
			fail(control.ApplyFD, control.OpConfine, err)
		}
	}
	if err := enclose(o.Box); err != nil {
		fail(control.ApplyFD, control.OpConfine, err)
	}
	closeFrom(control.ApplyFD + 1) // the runtime's own descriptors, too: nothing waits any more
	return path
}

// listen makes what the host accepts connections from: a socket belongs to the network that it was made in, wherever it is
// held. It sends that to the host. Nothing of the way out is in the box, so there is nothing there to take over.
func listen(to int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: control.ProxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := syscall.Listen(fd, 128); err != nil {
		return err
	}
	return syscall.Sendmsg(to, []byte{0}, syscall.UnixRights(fd), nil, 0)
	// Both are closed with the rest, before the target runs.
}
