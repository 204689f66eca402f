//go:build !family

package main

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// serve handles the host's requests until this process ends, or a pause is requested after the tree has ended. When the host has ended,
// it ends the tree.
func (w *watcher) serve(in *control.Reader, lifelineGraceMS uint32, p *pause) {
	var (
		gone  bool
		steps ladder
		asked = make(map[int]bool) // processes that have got SIGTERM
	)
	end := func(grace time.Duration) {
		w.ending = true
		steps.end(time.Now(), grace)
	}
	for {
		todo, wait := steps.next(time.Now())
		switch todo {
		case stepAsk:
			w.terminate(asked)
		case stepKill:
			w.kill()
		case stepGiveUp:
			send(control.FD, control.Left{Count: uint32(w.kill())}.Append(nil))
			syscall.Exit(1)
		}
		readable, paused := await(!gone, p, wait)
		if paused { // the goroutine that waits for the next order reads from now on
			p.taken <- struct{}{}
			return
		}
		if !readable {
			continue
		}
		frame, err := in.Next()
		if err != nil {
			gone = true
			w.mu.Lock()
			w.mu.hostGone = true
			w.mu.Unlock()
			end(time.Duration(lifelineGraceMS) * time.Millisecond)
			continue
		}
		switch frame.Kind {
		case control.KindSignal:
			if m, err := frame.Signal(); err == nil {
				// The reply is sent with the lock held, so that it precedes the reaping of the tree and the end of this process.
				w.mu.Lock()
				errno := w.signalLocked(syscall.Signal(m.Number), m.Group)
				send(control.FD, control.Replied{Seq: m.Seq, Errno: uint32(errno)}.Append(nil))
				w.mu.Unlock()
			}
		case control.KindHide:
			if m, err := frame.Hide(); err == nil {
				w.mu.Lock()
				errno := w.hideLocked(m.Covers)
				send(control.FD, control.Replied{Seq: m.Seq, Errno: uint32(errno)}.Append(nil))
				w.mu.Unlock()
			}
		case control.KindKill:
			if m, err := frame.Kill(); err == nil {
				end(time.Duration(m.GraceMS) * time.Millisecond)
			}
		}
	}
}

// pause ends serve between two orders, so that the goroutine that waits for the next order is the only reader.
type pause struct {
	fd    int           // an eventfd, readable once the pause is requested
	taken chan struct{} // contains a token once serve has ended
}

// newPause returns nil if it can't create a pause: then this process ends with its tree.
func newPause() *pause {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil
	}
	return &pause{int(fd), make(chan struct{}, 1)}
}

// take requests the pause and returns once serve has ended. It returns false if p is nil.
func (p *pause) take() bool {
	if p == nil {
		return false
	}
	one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // not zero in any byte order
	for {
		if _, err := syscall.Write(p.fd, one[:]); err != syscall.EINTR {
			break
		}
	}
	<-p.taken
	syscall.Close(p.fd)
	return true
}

const pollIn = 1

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// await waits until the control socket is readable, unless socket is false, or a pause is requested, but no longer than wait; negative:
// no limit.
func await(socket bool, p *pause, wait time.Duration) (readable, paused bool) {
	fds := [2]pollFD{{fd: -1}, {fd: -1}} // the kernel ignores negative descriptors
	if socket {
		fds[0] = pollFD{fd: control.FD, events: pollIn}
	}
	if p != nil {
		fds[1] = pollFD{fd: int32(p.fd), events: pollIn}
	}
	var limit *syscall.Timespec
	if wait >= 0 {
		ts := syscall.NsecToTimespec(int64(wait))
		limit = &ts
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), uintptr(len(fds)), uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	return errno == 0 && fds[0].revents != 0, errno == 0 && fds[1].revents != 0
}

// signalLocked sends sig to the target or to its process group.
func (w *watcher) signalLocked(sig syscall.Signal, group bool) syscall.Errno {
	if !w.mu.reaped && w.pidfd < 0 {
		pid := w.pid
		if group {
			pid = -pid
		}
		return errnoOf(syscall.Kill(pid, sig))
	}
	if !w.mu.reaped {
		return w.signalBoxed(sig, group)
	}
	if !group {
		return syscall.ESRCH
	}
	// The group's leader is gone, so its id may belong to another process. Signal the members of the group that are in the tree.
	result := syscall.ESRCH
	for _, d := range descendants() {
		if d.group == w.target && !d.dead() {
			if errno := w.signalOne(d, sig); result != 0 {
				result = errno
			}
		}
	}
	return result
}

// terminate asks the processes of the tree that are not in asked to end: with SIGTERM, after SIGHUP if there is a terminal, as if it were
// closed (interactive shells ignore SIGTERM), and with SIGCONT, because a stopped process handles signals only after it continues. No
// process is asked twice: to many programs a second SIGTERM means to skip their clean-up.
func (w *watcher) terminate(asked map[int]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range descendants() {
		if asked[d.pid] || d.dead() || w.pidfd >= 0 && d.pid == w.pid {
			continue // the end of bubblewrap would end its sandbox at once, without grace
		}
		asked[d.pid] = true
		if w.terminal {
			w.signalOne(d, syscall.SIGHUP)
		}
		w.signalOne(d, syscall.SIGTERM)
		w.signalOne(d, syscall.SIGCONT)
	}
}

// kill sends SIGKILL to the whole tree and returns how many processes were alive.
func (w *watcher) kill() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noForks()
	if !w.mu.reaped {
		// The kernel signals a whole group atomically, so that a group that keeps forking can't escape.
		syscall.Kill(-w.pid, syscall.SIGKILL)
	}
	alive := 0
	for _, d := range descendants() {
		if !d.dead() {
			alive++
			w.signalOne(d, syscall.SIGKILL)
		}
	}
	return alive
}

// signalOne signals one process of the tree. The lock keeps the ids of our children from being reused. For other processes it opens a
// pidfd and checks the parent again: a process that has got the id meanwhile has a parent outside of the tree.
func (w *watcher) signalOne(d process, sig syscall.Signal) syscall.Errno {
	if d.parent == syscall.Getpid() {
		return errnoOf(syscall.Kill(d.pid, sig))
	}
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(d.pid), 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM {
		return errnoOf(syscall.Kill(d.pid, sig))
	}
	if errno != 0 {
		return errno
	}
	defer syscall.Close(int(fd))
	again, ok := look(d.pid)
	if !ok || again.parent != d.parent && again.parent != syscall.Getpid() {
		return syscall.ESRCH
	}
	_, _, errno = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
	return errno
}
