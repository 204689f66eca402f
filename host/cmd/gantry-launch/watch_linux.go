//go:build !family

package main

import (
	"runtime"
	"sync"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

const prSetChildSubreaper = 36

// watcher is the state of the first stage for one target.
type watcher struct {
	pid      int      // our child: the target, or bubblewrap, which waits for it
	target   int      // the target, which leads its process group and session
	pidfd    int      // of a target in a sandbox, which is not our child; else -1
	box      *sandbox // created before the target's order, or kept from the previous target; nil: none
	terminal bool
	cgroup   string
	groups   []string     // of version 1
	used     control.Used // by the processes that were reaped
	ending   bool         // the tree is to end; used by serve, and by others after it has paused

	// mu excludes reaping while a signal is sent: while it is held, the id of a child of ours can't be reused.
	mu struct {
		sync.Mutex
		reaped   bool // the target
		hostGone bool
	}
}

// watch starts the target and waits until its tree has ended; then it may wait for another order. It does not return.
func watch() {
	// The target's parent-death signal is tied to the thread that forks it.
	runtime.LockOSThread()
	closeFrom(3)
	// Orphans of the tree become our children, so that daemons are found.
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		fail(control.FD, control.OpPrepare, errno)
	}
	syscall.Chdir("/") // don't keep the host's folder busy
	w := &watcher{pidfd: -1}
	for {
		w.run()
		next := &watcher{pidfd: -1}
		if w.box != nil {
			next.box, next.pid = w.box, w.pid
			syscall.Close(w.pidfd)
		}
		w = next
	}
}

// run handles one order. It returns if another may follow; if a sandbox is kept, one for that sandbox.
func (w *watcher) run() {
	in, frame, target, err := nextOrder()
	if err != nil && w.box != nil {
		w.discard()
	}
	if err != nil {
		syscall.Exit(1) // the host does not need us, or has ended
	}
	order, err := frame.Order()
	if err == control.ErrVersion {
		fail(control.FD, control.OpVersion, err)
	}
	if err == nil && len(order.Argv) == 0 && order.Box != nil && w.box == nil {
		w.box = w.openBox(order.Box, &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}, order.Reusable)
		w.box.ready()
		w.box.finish(order.Box)
		send(control.FD, control.Prepared{PID: uint32(w.box.stage)}.Append(nil))
		if in, frame, target, err = receiveOrder(control.FD); err != nil {
			w.discard()
		}
		order, err = frame.Order()
	}
	if err != nil || len(order.Argv) == 0 || len(target) != descriptors(order) || w.box != nil && order.Box == nil {
		fail(control.FD, control.OpPrepare, syscall.EPROTO)
	}
	w.terminal, w.cgroup, w.groups = order.Terminal, order.Cgroup, order.Groups
	w.start(order, target)
	for _, fd := range target {
		syscall.Close(fd) // only the target may have them, so that readers notice its end
	}
	syscall.Chdir("/") // don't keep the target's folder busy
	send(control.FD, control.Started{PID: uint32(w.target)}.Append(nil))
	var again *pause
	if order.Reusable {
		again = newPause()
	}
	// Owned by this process: it ends with it, or with the pause.
	go w.serve(in, order.LifelineGraceMS, again)
	if w.box != nil && w.box.keeps {
		if exited, used, ok := w.box.left(); ok {
			if again.take() && !w.ending {
				send(control.FD, control.Free{}.Append(used.Append(exited.Append(nil))))
				return
			}
			w.end(exited)
		}
	}
	w.reap()
	if w.box == nil && again.take() && !w.ending {
		send(control.FD, control.Free{}.Append(nil))
		return
	}
	send(control.FD, w.used.Append(nil))
	w.mu.Lock()
	gone := w.mu.hostGone
	w.mu.Unlock()
	if gone { // otherwise the host removes them, after it has read their counters
		w.removeGroups()
	}
	syscall.Exit(0)
}

// end ends a sandbox that was kept for several targets, after the last of them has ended.
func (w *watcher) end(exited control.Exited) {
	w.mu.Lock()
	w.mu.reaped = true
	syscall.Kill(-w.pid, syscall.SIGKILL)
	w.mu.Unlock()
	send(control.FD, exited.Append(nil))
}

// descriptors returns how many descriptors come with an order.
func descriptors(o *control.Order) int {
	if o.Box != nil && o.Box.Listen {
		return control.Targets + 1
	}
	return control.Targets
}

// nextOrder waits for an order. It skips frames about the previous tree that the host has sent before it knew that the tree had ended.
func nextOrder() (in *control.Reader, frame control.Frame, target []int, err error) {
	for {
		in, frame, target, err = receiveOrder(control.FD)
		if err != nil || frame.Kind != control.KindSignal && frame.Kind != control.KindKill && frame.Kind != control.KindHide {
			return in, frame, target, err
		}
	}
}

// receiveOrder waits for an order. The target's descriptors come with its first byte.
func receiveOrder(fd int) (in *control.Reader, frame control.Frame, target []int, err error) {
	in = receive(fd)
	plainly := in.Read
	in.Read = func(b []byte) (n int, err error) {
		in.Read = plainly
		n, target, err = readWithDescriptors(fd, b)
		return n, err
	}
	frame, err = in.Next()
	return in, frame, target, err
}

func readWithDescriptors(fd int, b []byte) (n int, fds []int, err error) {
	oob := make([]byte, syscall.CmsgSpace(4*(control.Targets+1)))
	n, oobn, _, _, err := syscall.Recvmsg(fd, b, oob, syscall.MSG_CMSG_CLOEXEC)
	for err == syscall.EINTR {
		n, oobn, _, _, err = syscall.Recvmsg(fd, b, oob, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return n, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return n, nil, nil // an order without descriptors is refused
	}
	fds, _ = syscall.ParseUnixRights(&messages[0])
	return n, fds, nil
}

// sendWithDescriptors sends an order, with the target's descriptors.
func sendWithDescriptors(fd int, frame []byte, target []int) error {
	n, err := syscall.SendmsgN(fd, frame[:min(len(frame), 4096)], syscall.UnixRights(target...), nil, syscall.MSG_NOSIGNAL)
	for err == syscall.EINTR {
		n, err = syscall.SendmsgN(fd, frame[:min(len(frame), 4096)], syscall.UnixRights(target...), nil, syscall.MSG_NOSIGNAL)
	}
	if err == nil {
		send(fd, frame[n:])
	}
	return err
}

// start forks the target.
func (w *watcher) start(o *control.Order, target []int) {
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if o.Cgroup != "" {
		fd, err := syscall.Open(o.Cgroup, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			fail(control.FD, control.OpCgroup, err)
		}
		sys.UseCgroupFD, sys.CgroupFD = true, fd
		defer syscall.Close(fd)
	}
	defer leave(o.Groups)
	if err := enter(o.Groups); err != nil {
		fail(control.FD, control.OpCgroup, err)
	}
	if o.Box != nil {
		if w.box == nil {
			w.box = w.openBox(o.Box, sys, false)
			if o.Box.KernelReadOnly {
				w.box.ready()
				w.box.finish(o.Box)
			}
		}
		w.enter(w.box, o, target)
		return
	}
	if err := syscall.Chdir(o.Cwd); err != nil {
		fail(control.FD, control.OpChdir, err)
	}
	path, err := lookPath(o.Argv[0], o.Env)
	if err != nil {
		fail(control.FD, control.OpExec, err)
	}
	sys.Setctty = o.Terminal
	attr := &syscall.ProcAttr{
		Env:   o.Env,
		Files: []uintptr{uintptr(target[0]), uintptr(target[1]), uintptr(target[2])},
		Sys:   sys,
	}
	if len(o.Rlimits) > 0 {
		w.pid = startApply(o, path, attr)
	} else if w.pid, err = syscall.ForkExec(path, o.Argv, attr); err != nil {
		fail(control.FD, control.OpExec, err)
	}
	w.target = w.pid
}

// startApply starts the second stage and returns once that has executed the target.
func startApply(o *control.Order, path string, attr *syscall.ProcAttr) int {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		fail(control.FD, control.OpPrepare, err)
	}
	attr.Files = append(attr.Files, uintptr(pair[1]))
	attr.Env = []string{control.StageEnv + "=" + control.StageApply, "GOGC=off"}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"gantry-launch"}, attr)
	if err != nil {
		fail(control.FD, control.OpPrepare, err)
	}
	syscall.Close(pair[1])
	defer syscall.Close(pair[0])
	next := *o
	next.Path = path
	send(pair[0], next.Append(nil))
	if !applied(receive(pair[0])) {
		fail(control.FD, control.OpLimit, syscall.EPROTO) // it crashed
	}
	return pid
}

// reap reaps children until there are none, and reports the end of the target.
func (w *watcher) reap() {
	for {
		// Wait for a child to end without reaping it: that is done below, with the lock held.
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, 0, 0, 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return // ECHILD: the tree has ended
		}
		var exited *control.Exited
		w.mu.Lock()
		for {
			var status syscall.WaitStatus
			var usage syscall.Rusage
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &usage)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			w.used.UserMicros += uint64(usage.Utime.Nano() / 1000)
			w.used.SystemMicros += uint64(usage.Stime.Nano() / 1000)
			w.used.MaxRSSKiB = max(w.used.MaxRSSKiB, uint64(usage.Maxrss))
			if pid == w.pid && !w.mu.reaped {
				w.mu.reaped = true
				exited = &control.Exited{
					UserMicros:   uint64(usage.Utime.Nano() / 1000),
					SystemMicros: uint64(usage.Stime.Nano() / 1000),
					MaxRSSKiB:    uint64(usage.Maxrss),
				}
				exited.Code, exited.Signal = w.ended(status)
			}
		}
		w.mu.Unlock()
		if exited != nil {
			send(control.FD, exited.Append(nil))
		}
	}
}

// ended returns how the target ended, from the status of our child. After signal n, bubblewrap exits with 128+n.
func (w *watcher) ended(status syscall.WaitStatus) (code, signal uint32) {
	const base, signals = 128, 64
	switch n := status.ExitStatus(); {
	case status.Signaled():
		return 0, uint32(status.Signal())
	case w.pid != w.target && n > base && n <= base+signals:
		return 0, uint32(n - base)
	default:
		return uint32(n), 0
	}
}

// closeFrom closes all descriptors from first on, which the host may have inherited from its own parent.
func closeFrom(first int) {
	const sysCloseRange = 436 // the same number on every architecture
	if _, _, errno := syscall.RawSyscall(sysCloseRange, uintptr(first), ^uintptr(0)>>32, 0); errno == 0 {
		return
	}
	entries := list("/proc/self/fd")
	for _, name := range entries {
		if fd := number(name); fd >= first {
			syscall.Close(fd)
		}
	}
}
