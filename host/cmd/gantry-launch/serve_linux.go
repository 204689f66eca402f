//go:build !family

package main

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

const (
	// killBound is how long SIGKILL is repeated. What is left after it belongs to another user or hangs in the kernel.
	killBound = 2 * time.Second
	// Between two rounds of signals. A round reaches all that is visible, so the second is for what was being forked.
	firstRound, lastRound = 5 * time.Millisecond, 80 * time.Millisecond
)

// serve obeys the host until the process ends, or the tree has ended and it is to pause. When the host is gone it ends the tree.
func (w *watcher) serve(in *control.Reader, lifelineGraceMS uint32, p *pause) {
	var (
		gone      bool
		termUntil time.Time // not zero: SIGTERM was sent
		killUntil time.Time // not zero: SIGKILL is being sent
		round     = firstRound
		told      = make(map[int]bool) // who has got SIGTERM
	)
	end := func(grace time.Duration) {
		w.ending = true
		until := time.Now().Add(grace)
		if termUntil.IsZero() || until.Before(termUntil) {
			termUntil = until
		}
	}
	for {
		wait := time.Duration(-1)
		switch now := time.Now(); {
		case !killUntil.IsZero():
			left := w.kill()
			if now.After(killUntil) {
				send(control.FD, control.Left{Count: uint32(left)}.Append(nil))
				syscall.Exit(1)
			}
			wait = round
			round = min(2*round, lastRound)
		case !termUntil.IsZero():
			wait = termUntil.Sub(now)
			if wait <= 0 {
				killUntil, round = now.Add(killBound), firstRound
				continue
			}
			w.terminate(told)
			wait = min(wait, round)
			round = min(2*round, lastRound)
		}
		readable, paused := await(!gone, p, wait)
		if paused { // what can be read is left to who waits for the next order
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
				// The reply goes out under the lock too: the tree can't be reaped, and this process end, before it.
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

// pause ends serving between two orders, so that who waits for the next is the only one who reads.
type pause struct {
	fd    int           // readable: somebody asks for it
	taken chan struct{} // holds a token once it is taken
}

// newPause returns nil where there can be none: then the launcher ends with its tree.
func newPause() *pause {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil
	}
	return &pause{int(fd), make(chan struct{}, 1)}
}

// take asks for the pause and returns when nobody serves any more. false: there is none.
func (p *pause) take() bool {
	if p == nil {
		return false
	}
	one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // whatever the order of its bytes
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

// await waits for the control socket, if it is to be looked at, and for a pause, at most for the given time; negative is for ever.
func await(socket bool, p *pause, wait time.Duration) (readable, paused bool) {
	fds := [2]pollFD{{fd: -1}, {fd: -1}} // which the kernel passes over
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
	// The group's leader is gone, so that its number may name a stranger: find who of the tree is still in the group.
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

// terminate asks everybody in the tree who has not been told yet to end: SIGTERM, preceded by SIGHUP where there is a
// terminal, as if it were closed (interactive shells ignore SIGTERM). A stopped process only hears it when it continues.
// Nobody is told twice: to many programs a second SIGTERM means to drop everything.
func (w *watcher) terminate(told map[int]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range descendants() {
		if told[d.pid] || d.dead() || w.pidfd >= 0 && d.pid == w.pid {
			continue // with bubblewrap its box would end at once, without any grace
		}
		told[d.pid] = true
		if w.terminal {
			w.signalOne(d, syscall.SIGHUP)
		}
		w.signalOne(d, syscall.SIGTERM)
		w.signalOne(d, syscall.SIGCONT)
	}
}

// kill sends SIGKILL to the whole tree and returns how many live processes it saw.
func (w *watcher) kill() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noForks()
	if !w.mu.reaped {
		// The kernel does this against forks: a group that keeps forking can't run away from it.
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

// signalOne signals one process of the tree. The lock protects our children's numbers; for the others a pidfd and a
// second look do: a number that was given to a stranger meanwhile has a parent outside of the tree.
func (w *watcher) signalOne(d process, sig syscall.Signal) syscall.Errno {
	const sysPidfdSendSignal, sysPidfdOpen = 424, 434 // the same numbers on every architecture
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
