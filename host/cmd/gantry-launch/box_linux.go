//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// sandbox is a sandbox: bubblewrap, and a stage in it that waits for an order. The stage executes the target, or keeps the sandbox for
// several targets.
type sandbox struct {
	socket int // to the stage
	said   int // bubblewrap's error output
	in     *control.Reader
	keeps  bool
	stage  int   // the stage's id in our PID namespace, once it has sent a frame
	mounts int   // the sandbox's mount namespace, from then on; -1: it can't be opened
	passed []int // descriptors that the stage has sent
}

// openBox starts bubblewrap, which creates the sandbox and starts a stage in it.
func (w *watcher) openBox(x *control.Box, sys *syscall.SysProcAttr, keeps bool) *sandbox {
	must := func(err error) {
		if err != nil {
			fail(control.FD, control.OpPrepare, err)
		}
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(err)
	// With each message the kernel reports the id of the sender in our PID namespace, which will be the target's.
	must(syscall.SetsockoptInt(pair[0], syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1))
	var args, said [2]int
	must(syscall.Pipe2(args[:], syscall.O_CLOEXEC))
	must(syscall.Pipe2(said[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK))
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	must(err)
	self, err := syscall.Open("/proc/self/exe", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	must(err)
	attr := &syscall.ProcAttr{
		Env: []string{control.StageEnv + "=" + control.StageApply, "GOGC=off"},
		Sys: sys,
		Files: []uintptr{
			uintptr(null), uintptr(null), uintptr(said[1]), control.ApplyFD: uintptr(pair[1]),
			control.BoxFD: uintptr(args[0]), control.SelfFD: uintptr(self),
		},
	}
	if keeps {
		attr.Env[0] = control.StageEnv + "=" + control.StageKeep
	}
	command := []string{"bwrap", "--args", decimal(control.BoxFD), "--", "/proc/self/fd/" + decimal(control.SelfFD)}
	if w.pid, err = syscall.ForkExec(x.Helper, command, attr); err != nil {
		fail(control.FD, control.OpConfine, err)
	}
	for _, fd := range [...]int{pair[1], args[0], said[1], null, self} {
		syscall.Close(fd)
	}
	var list []byte
	name, err := randomName()
	must(err)
	for _, a := range x.Args {
		if n := len(control.Beside); len(a) >= n && a[:n] == control.Beside {
			a = a[:n] + name + a[n:]
		}
		list = append(append(list, a...), 0)
	}
	if keeps { // as the first process of its namespace, the stage adopts orphans, and everything ends with it
		list = append(list, "--as-pid-1\x00"...)
	}
	send(args[1], list)
	syscall.Close(args[1])
	e := &sandbox{socket: pair[0], said: said[0], keeps: keeps, mounts: -1}
	e.in = &control.Reader{Read: e.read}
	return e
}

// randomName returns a name that can't be guessed.
func randomName() (string, error) {
	fd, err := syscall.Open("/dev/urandom", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	var b [16]byte
	if n, err := syscall.Read(fd, b[:]); err != nil {
		return "", err
	} else if n < len(b) {
		return "", syscall.EIO
	}
	name := make([]byte, 0, 2*len(b))
	for _, x := range b {
		name = append(name, 'a'+x>>4, 'a'+x&15)
	}
	return string(name), nil
}

// ready returns once the stage waits for its order.
func (e *sandbox) ready() {
	if frame, err := e.in.Next(); err != nil || frame.Kind != control.KindPrepared {
		e.complain()
	}
}

// finish mounts the devices in a sandbox of root read-only. They can still be read and written, but root, who owns these devices of the
// machine, could otherwise change their modes. Bubblewrap can't do this: devices don't work in mounts that it makes read-only. If we may
// not enter the sandbox, we are in a container and the devices are the container's.
func (e *sandbox) finish(x *control.Box) {
	if !x.KernelReadOnly {
		return
	}
	done := make(chan error)
	go func() { // its thread ends with it, because it can't leave the sandbox
		runtime.LockOSThread()
		done <- e.devicesReadOnly()
	}()
	if err := <-done; err != nil && err != syscall.EPERM && err != syscall.EACCES {
		fail(control.FD, control.OpConfine, err)
	}
}

func (e *sandbox) devicesReadOnly() error {
	const cloneFS, cloneMounts = 0x200, 0x20000
	setns := uintptr(308)
	if runtime.GOARCH == "arm64" {
		setns = 268
	}
	fd, err := syscall.Open("/proc/"+decimal(e.stage)+"/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_UNSHARE, cloneFS, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(setns, uintptr(fd), cloneMounts, 0); errno != 0 {
		return errno
	}
	for _, name := range devices {
		if err := setAttributes(atFdcwd, "/dev/"+name, 0, attrReadOnly); err != nil && err != syscall.ENOENT {
			return err
		}
	}
	return nil
}

// complain reports bubblewrap's error to the host. It does not return.
func (e *sandbox) complain() {
	b := make([]byte, 1024)
	n, _ := syscall.Read(e.said, b)
	send(control.FD, control.Failed{Op: control.OpConfine, Text: string(b[:max(n, 0)])}.Append(nil))
	syscall.Exit(1)
}

// enter sends the order to the stage, and returns once the target is executed.
func (w *watcher) enter(e *sandbox, o *control.Order, target []int) {
	if err := sendWithDescriptors(e.socket, o.Append(nil), target); err != nil && err != syscall.EPIPE {
		fail(control.FD, control.OpPrepare, err)
	}
	// said remains open, so that bubblewrap never gets SIGPIPE.
	if e.keeps {
		w.meet(e)
		return
	}
	if !applied(e.in) {
		e.complain()
	}
	syscall.Close(e.socket)
	w.target = e.stage
	var err error
	if w.pidfd, err = pidfdOpen(e.stage); err != nil && err != syscall.ESRCH { // ESRCH: it has ended already
		fail(control.FD, control.OpConfine, err)
	}
}

// discard ends a sandbox without a target. It does not return.
func (w *watcher) discard() {
	syscall.Kill(-w.pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && err != syscall.EINTR {
			syscall.Exit(0)
		}
	}
}

// meet returns once a target runs in a sandbox that is kept. The stage sends a pidfd of the target, and reaps nothing before it gets the
// acknowledgement.
func (w *watcher) meet(e *sandbox) {
	frame, err := e.in.Next()
	if err != nil {
		e.complain()
	}
	if failed, err := frame.Failed(); err == nil {
		fail(control.FD, failed.Op, syscall.Errno(failed.Errno))
	}
	if _, err := frame.Started(); err != nil || len(e.passed) != 1 {
		fail(control.FD, control.OpPrepare, syscall.EPROTO)
	}
	w.pidfd, e.passed = e.passed[0], nil
	w.target = pidOf(w.pidfd)
	send(e.socket, control.Started{}.Append(nil))
}

// left waits until the target in a sandbox that is kept has ended. ok: nothing of it is left, and the sandbox waits for another target;
// otherwise the sandbox is ending.
func (e *sandbox) left() (exited control.Exited, used control.Used, ok bool) {
	for {
		frame, err := e.in.Next()
		if err != nil {
			return exited, used, false
		}
		switch frame.Kind {
		case control.KindExited:
			exited, _ = frame.Exited()
		case control.KindUsed:
			used, _ = frame.Used()
		case control.KindFree:
			return exited, used, true
		}
	}
}

// pidOf returns the id of a process that has not been reaped.
func pidOf(pidfd int) int {
	text := readAll("/proc/self/fdinfo/" + decimal(pidfd))
	const name = "\nPid:\t"
	for i := 0; i+len(name) < len(text); i++ {
		if string(text[i:i+len(name)]) == name {
			pid, _ := field(text[i+len(name):])
			return pid
		}
	}
	return 0
}

// read reads from the stage, and records the stage's id and descriptors that come with the message.
func (e *sandbox) read(b []byte) (int, error) {
	oob := make([]byte, syscall.CmsgSpace(syscall.SizeofUcred)+syscall.CmsgSpace(4))
	n, oobn, _, _, err := syscall.Recvmsg(e.socket, b, oob, syscall.MSG_CMSG_CLOEXEC)
	for err == syscall.EINTR {
		n, oobn, _, _, err = syscall.Recvmsg(e.socket, b, oob, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return n, err
	}
	messages, _ := syscall.ParseSocketControlMessage(oob[:oobn])
	for i := range messages {
		if cred, err := syscall.ParseUnixCredentials(&messages[i]); err == nil && cred.Pid > 0 {
			if e.stage == 0 { // the first message: it has not executed anything yet that can't be inspected
				e.mounts, _ = syscall.Open("/proc/"+decimal(int(cred.Pid))+"/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			}
			e.stage = int(cred.Pid)
		}
		if fds, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			e.passed = append(e.passed, fds...)
		}
	}
	return n, nil
}

const sysPidfdSendSignal, sysPidfdOpen = 424, 434 // the same numbers on every architecture

func pidfdOpen(pid int) (int, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	syscall.CloseOnExec(int(fd))
	return int(fd), nil
}

// signalBoxed sends sig to a target in a sandbox, or to its process group. We don't reap the target, so its id may be another's.
func (w *watcher) signalBoxed(sig syscall.Signal, group bool) syscall.Errno {
	const toGroup = 4 // PIDFD_SIGNAL_PROCESS_GROUP, of Linux 6.9
	flags := uintptr(0)
	if group {
		flags = toGroup
	}
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(w.pidfd), uintptr(sig), 0, flags, 0, 0)
	if errno != syscall.EINVAL || !group {
		return errno
	}
	if _, _, errno = syscall.Syscall6(sysPidfdSendSignal, uintptr(w.pidfd), 0, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return errnoOf(syscall.Kill(-w.target, sig))
}

// Landlock's system calls; the same numbers on every architecture.
const (
	sysLandlockCreate, sysLandlockAdd, sysLandlockRestrict = 444, 445, 446

	landlockPathBeneath = 1
)

// confine confines this thread as x says, except for mounts and the filter.
func confine(x *control.Box) error {
	rules, err := ruleset(x)
	if err != nil {
		return err
	}
	if errno := restrict(rules); errno != 0 {
		return errno
	}
	if rules >= 0 {
		syscall.Close(rules)
	}
	return nil
}

// restrict enforces a Landlock ruleset on this thread, unless it is negative, and gives it a new session keyring. It allocates nothing.
//
//go:norace
//go:nosplit
func restrict(rules int) syscall.Errno {
	const prSetNoNewPrivs, joinSessionKeyring = 38, 1
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	// The keys of the host's user are not for this process. This fails if the kernel has no keyrings.
	syscall.RawSyscall(syscall.SYS_KEYCTL, joinSessionKeyring, 0, 0)
	if rules < 0 {
		return 0
	}
	_, _, errno := syscall.RawSyscall(sysLandlockRestrict, uintptr(rules), 0, 0)
	return errno
}

// ruleset returns a Landlock ruleset for a sandbox; -1: there is no Landlock. It checks first that the sandbox hides what it has to.
func ruleset(x *control.Box) (rules int, err error) {
	for _, c := range x.Covers {
		if err := covered(c); err != nil {
			return -1, err
		}
	}
	rules = -1
	if x.Handled != 0 || x.Scoped != 0 {
		attr := [3]uint64{x.Handled, 0, x.Scoped}
		fd, _, errno := syscall.RawSyscall(sysLandlockCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		if errno != 0 {
			return -1, errno
		}
		rules = int(fd) // closed on exec
	}
	for _, r := range x.Rules {
		fd, err := syscall.Open(r.Path, oPath|syscall.O_CLOEXEC, 0)
		if err == syscall.ENOENT {
			continue
		}
		if err != nil {
			return -1, err
		}
		// The folder may have been replaced, with another or with a link, since the host has judged it.
		var st syscall.Stat_t
		if r.Ino != 0 {
			if err := syscall.Fstat(fd, &st); err != nil {
				return -1, err
			}
			if uint64(st.Dev) != r.Dev || st.Ino != r.Ino {
				return -1, syscall.ESTALE
			}
		}
		if rules < 0 {
			syscall.Close(fd)
			continue
		}
		var rule [12]byte
		for i := range 8 {
			rule[i] = byte(r.Access >> (8 * i))
		}
		for i := range 4 {
			rule[8+i] = byte(fd >> (8 * i))
		}
		_, _, errno := syscall.RawSyscall6(sysLandlockAdd, uintptr(rules), landlockPathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		syscall.Close(fd)
		if errno != 0 {
			return -1, errno
		}
	}
	return rules, nil
}

// covered returns an error unless a file is hidden by a mount in the folder where it was found. A mount moves with its folder, so that
// once this has been checked it remains true.
func covered(c control.Cover) error {
	end := len(c.Path) - 1
	for end > 0 && c.Path[end] != '/' {
		end--
	}
	folder, err := syscall.Open(c.Path[:max(end, 1)], oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err == syscall.EACCES {
		return nil // the target can't reach it either
	}
	if err != nil {
		return syscall.ESTALE
	}
	defer syscall.Close(folder)
	var st syscall.Stat_t
	if err := syscall.Fstat(folder, &st); err != nil {
		return err
	}
	if uint64(st.Dev) != c.Dev || st.Ino != c.Ino {
		return syscall.ESTALE
	}
	it, err := syscall.Openat(folder, c.Path[end+1:], oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err == syscall.EACCES {
		return nil
	}
	if err != nil {
		return syscall.ESTALE
	}
	defer syscall.Close(it)
	if err := syscall.Fstat(it, &st); err != nil {
		return err
	}
	if c.WasDev != 0 || c.WasInode != 0 {
		if uint64(st.Dev) == c.WasDev && st.Ino == c.WasInode {
			return syscall.ESTALE
		}
		return nil
	}
	const readOnly = 1 // ST_RDONLY
	var fs syscall.Statfs_t
	if err := syscall.Fstatfs(it, &fs); err != nil {
		return err
	}
	if fs.Flags&readOnly == 0 {
		return syscall.ESTALE
	}
	return nil
}

// program is the kernel's struct sock_fprog.
type program struct {
	count uint16
	first *byte
}

// filter installs a filter of system calls for this thread. It allocates nothing.
//
//go:norace
//go:nosplit
func filter(p *program) syscall.Errno {
	const prSetSeccomp, modeFilter = 22, 2
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSeccomp, modeFilter, uintptr(unsafe.Pointer(p)), 0, 0, 0)
	return errno
}
