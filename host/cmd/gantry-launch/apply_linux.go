//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// apply is the second stage: it limits and confines itself and executes the target. It does not return. It sends Started before the last
// step, the execution, which closes its socket. In a sandbox it may have to wait for its order.
func apply() {
	runtime.LockOSThread() // limits and confinement apply to this thread, which executes the target
	ready()
	send(control.ApplyFD, control.Prepared{}.Append(nil))
	_, frame, received, err := receiveOrder(control.ApplyFD)
	if err != nil {
		syscall.Exit(1)
	}
	order, err := frame.Order()
	if err != nil || order.Box != nil && len(received) != descriptors(order) {
		fail(control.ApplyFD, control.OpPrepare, syscall.EPROTO)
	}
	t := plan(order, received)
	t.started = control.Started{}.Append(nil)
	op, errno := execute(t)
	runtime.KeepAlive(t)
	fail(control.ApplyFD, op, errno)
}

// ready closes the descriptors that a stage in a sandbox has inherited and does not need, and restores the limit on descriptors that the
// Go runtime has raised for itself.
func ready() {
	closeFrom(control.ApplyFD + 1) // descriptors that are opened from here on are closed on exec
	syscall.CloseOnExec(control.ApplyFD)
	syscall.Exec("", nil, nil) // restores the limit, and then fails
}

// target is a program to execute, with its limits and confinement, as arguments of system calls.
type target struct {
	path      *byte
	argv, env []*byte
	boxed     bool
	terminal  bool
	files     [control.Targets]int // in a sandbox
	ruleset   int                  // Landlock's; -1: none
	limits    []lowered
	started   []byte // sent once the limits are in force; empty: nothing
	rules     program
}

type lowered struct {
	resource uintptr
	to       syscall.Rlimit
}

// plan prepares a target. It fails the order, and does not return, if the target is not possible.
func plan(o *control.Order, received []int) *target {
	must := func(op control.Op, err error) {
		if err != nil {
			fail(control.ApplyFD, op, err)
		}
	}
	t := &target{boxed: o.Box != nil, terminal: o.Terminal, ruleset: -1}
	found := o.Path
	var err error
	if x := o.Box; x != nil {
		must(control.OpChdir, syscall.Chdir(o.Cwd)) // the program's path may be relative to it
		found, err = lookPath(o.Argv[0], o.Env)
		must(control.OpExec, err)
		copy(t.files[:], received)
		if x.Listen {
			must(control.OpConfine, listen(received[control.Targets]))
		}
		t.ruleset, err = ruleset(x)
		must(control.OpConfine, err)
		if len(x.Filter) > 0 {
			t.rules = program{count: uint16(len(x.Filter) / 8), first: &x.Filter[0]}
		}
	}
	t.path, err = syscall.BytePtrFromString(found)
	must(control.OpExec, err)
	t.argv, err = syscall.SlicePtrFromStrings(o.Argv)
	must(control.OpExec, err)
	t.env, err = syscall.SlicePtrFromStrings(o.Env)
	must(control.OpExec, err)
	for _, l := range o.Rlimits {
		to, err := lower(l)
		must(control.OpLimit, err)
		t.limits = append(t.limits, lowered{uintptr(l.Resource), to})
	}
	return t
}

// execute executes a target, or returns the step that failed. It may run in the child of a fork, with one of several threads of the
// runtime, so it makes only system calls. It allocates nothing, because the limit on memory may be in force already.
//
//go:norace
//go:nosplit
func execute(t *target) (control.Op, syscall.Errno) {
	if t.boxed {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
			return control.OpPrepare, errno
		}
		if t.terminal {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(t.files[0]), syscall.TIOCSCTTY, 0); errno != 0 {
				return control.OpTerminal, errno
			}
		}
		for i, fd := range t.files {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_DUP3, uintptr(fd), uintptr(i), 0); errno != 0 {
				return control.OpPrepare, errno
			}
		}
		if errno := restrict(t.ruleset); errno != 0 {
			return control.OpConfine, errno
		}
	}
	for i := range t.limits {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, t.limits[i].resource, uintptr(unsafe.Pointer(&t.limits[i].to)), 0, 0, 0); errno != 0 {
			return control.OpLimit, errno
		}
	}
	if len(t.started) > 0 { // the socket's buffer is empty, so this does not block
		syscall.RawSyscall(syscall.SYS_WRITE, control.ApplyFD, uintptr(unsafe.Pointer(&t.started[0])), uintptr(len(t.started)))
	}
	if t.rules.count > 0 {
		if errno := filter(&t.rules); errno != 0 {
			return control.OpConfine, errno
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(t.path)),
		uintptr(unsafe.Pointer(&t.argv[0])), uintptr(unsafe.Pointer(&t.env[0])))
	return control.OpExec, errno
}

// listen sends the host a listener on the loopback interface of the sandbox: a socket belongs to the network namespace in which it was
// created. The proxy itself is outside of the sandbox, where the target can't manipulate it.
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
	err = syscall.Sendmsg(to, []byte{0}, syscall.UnixRights(fd), nil, 0)
	syscall.Close(fd)
	syscall.Close(to)
	return err
}
