//go:build darwin || (linux && family)

package main

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// markEnv names the variable by which those of a tree are known that have left everything else behind.
const markEnv = "GANTRY_TREE"

// lookAgain is the least time between two looks at all processes for the sake of what they do. A build forks a thousand times a second.
const lookAgain = 20 * time.Millisecond

// watcher is the first stage after the target has started. One goroutine does everything.
type watcher struct {
	target   int // and so its process group and session
	terminal bool
	boxed    bool // what the target leaves running ends with it
	reaped   bool // the target
	family   *family
	events   *events
	ladder   ladder
	asked    map[int]bool // who has got SIGTERM
	grace    time.Duration
}

// watch starts the target and stays until nothing of its tree is left. It does not return.
func watch() {
	closeFrom(3)
	syscall.Chdir("/") // don't keep the folder busy in which the host was started
	in, frame, target, err := receiveOrder()
	if err != nil {
		syscall.Exit(1) // the host has no use for us, or is gone
	}
	order, err := frame.Order()
	if err == control.ErrVersion {
		fail(control.FD, control.OpVersion, err)
	}
	if err != nil || len(order.Argv) == 0 || len(target) != control.Targets {
		fail(control.FD, control.OpPrepare, syscall.EPROTO)
	}
	mark := markEnv + "=" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	order.Env = append(order.Env, mark)
	w := &watcher{terminal: order.Terminal, boxed: order.Box != nil, asked: map[int]bool{}, grace: time.Duration(order.LifelineGraceMS) * time.Millisecond}
	if w.events, err = newEvents(); err != nil {
		fail(control.FD, control.OpPrepare, err)
	}
	w.start(order, target)
	for _, fd := range target {
		syscall.Close(fd) // the target's ends are the target's alone: who reads sees the end when it has ended
	}
	w.family = newFamily(w.target, os.Getpid(), func(pid int) (marked, sure bool) { return carries(pid, mark) })
	w.look() // before it can be reaped: when it was started tells others apart
	send(control.FD, control.Started{PID: uint32(w.target)}.Append(nil))
	w.stay(in)
	syscall.Exit(0)
}

// receiveOrder waits for the order. With its first byte come the target's descriptors.
func receiveOrder() (in *control.Reader, frame control.Frame, target []int, err error) {
	in = receive(control.FD)
	plainly := in.Read
	in.Read = func(b []byte) (n int, err error) {
		in.Read = plainly
		oob := make([]byte, syscall.CmsgSpace(4*control.Targets))
		n, oobn, _, _, err := syscall.Recvmsg(control.FD, b, oob, 0)
		for err == syscall.EINTR {
			n, oobn, _, _, err = syscall.Recvmsg(control.FD, b, oob, 0)
		}
		if err != nil {
			return n, err
		}
		if messages, err := syscall.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
			target, _ = syscall.ParseUnixRights(&messages[0]) // the order is refused without them
		}
		for _, fd := range target {
			syscall.CloseOnExec(fd)
		}
		return n, nil
	}
	frame, err = in.Next()
	return in, frame, target, err
}

// start starts the second stage, in the box where there is one, and returns when it has become the target.
func (w *watcher) start(o *control.Order, target []int) {
	must := func(err error) {
		if err != nil {
			fail(control.FD, control.OpPrepare, err)
		}
	}
	self, err := os.Executable()
	must(err)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(err)
	var said [2]int
	must(syscall.Pipe(said[:]))
	for _, fd := range append(pair[:], said[:]...) {
		syscall.CloseOnExec(fd)
	}
	must(syscall.SetNonblock(said[0], true))
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	must(err)
	program, argv := self, []string{"gantry-launch"}
	if o.Box != nil {
		program, argv = o.Box.Helper, slices.Concat([]string{o.Box.Helper}, o.Box.Args, []string{"--", self})
	}
	w.target, err = syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Env: []string{control.StageEnv + "=" + control.StageApply},
		Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{
			uintptr(null), uintptr(null), uintptr(said[1]), control.ApplyFD: uintptr(pair[1]),
			control.TargetFD: uintptr(target[0]), control.TargetFD + 1: uintptr(target[1]), control.TargetFD + 2: uintptr(target[2]),
		},
	})
	if err != nil && o.Box != nil {
		fail(control.FD, control.OpConfine, err)
	}
	must(err)
	for _, fd := range [...]int{pair[1], said[1], null} {
		syscall.Close(fd)
	}
	next := *o
	next.Box = nil // it is in it
	send(pair[0], next.Append(nil))
	if !applied(receive(pair[0])) {
		b := make([]byte, 1024)
		n, _ := syscall.Read(said[0], b)
		if o.Box == nil {
			fail(control.FD, control.OpPrepare, syscall.EPROTO) // it crashed
		}
		send(control.FD, control.Failed{Op: control.OpConfine, Text: string(b[:max(n, 0)])}.Append(nil))
		syscall.Exit(1)
	}
	syscall.Close(pair[0])
	syscall.Close(said[0])
}

// stay obeys the host until nothing of the tree is left. When the host is gone it ends the tree.
func (w *watcher) stay(in *control.Reader) {
	gone, looked := false, time.Time{}
	due := true // to look
	for {
		ended := w.reap()
		now := time.Now()
		if w.boxed && w.reaped {
			w.ladder.end(now, 0)
		}
		todo, wait := w.ladder.next(now)
		if due && now.Sub(looked) < lookAgain && todo == stepRest && !ended {
			wait = lookAgain - now.Sub(looked)
		} else if due || todo != stepRest {
			due = !w.look()
			looked = time.Now()
			if due && (wait < 0 || wait > lookAgain) {
				wait = lookAgain
			}
		}
		if w.reaped && len(w.family.alive) == 0 && !due {
			return
		}
		switch todo {
		case stepAsk:
			w.ask()
		case stepKill:
			w.kill()
		case stepGiveUp:
			w.kill()
			send(control.FD, control.Left{Count: uint32(len(w.family.alive))}.Append(nil))
			syscall.Exit(1)
		}
		readable, happened := w.events.wait(!gone, wait)
		due = due || happened
		if !readable {
			continue
		}
		frame, err := in.Next()
		if err != nil {
			gone = true
			w.ladder.end(time.Now(), w.grace)
			continue
		}
		switch frame.Kind {
		case control.KindSignal:
			if m, err := frame.Signal(); err == nil {
				errno := w.signal(syscall.Signal(m.Number), m.Group)
				send(control.FD, control.Replied{Seq: m.Seq, Errno: uint32(errno)}.Append(nil))
			}
		case control.KindKill:
			if m, err := frame.Kill(); err == nil {
				w.ladder.end(time.Now(), time.Duration(m.GraceMS)*time.Millisecond)
			}
		}
	}
}

// look finds out who belongs to the tree now, and has us told what they do. Who is found late is looked for again, since it may have
// forked before that. It returns whether everything was seen: who has ended in between nobody tells of any more.
func (w *watcher) look() (all bool) {
	all = true
	for range 8 {
		table := processes()
		if len(table) == 0 { // we are there, at least
			return false
		}
		_, fresh := w.family.learn(table)
		if len(fresh) == 0 {
			return all && !w.family.unsure
		}
		for _, pid := range fresh {
			all = w.events.watch(pid) && all
		}
	}
	return false
}

// reap notices the target's end, and reports it; just then it returns true. Whoever else ends is somebody else's child.
func (w *watcher) reap() bool {
	if w.reaped {
		return false
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	pid, err := syscall.Wait4(w.target, &status, syscall.WNOHANG, &usage)
	if err == syscall.EINTR || err == nil && pid == 0 {
		return false
	}
	w.look() // whom it has left behind, before anybody can rely on its end
	w.reaped = true
	exited := control.Exited{UserMicros: uint64(usage.Utime.Nano() / 1000), SystemMicros: uint64(usage.Stime.Nano() / 1000), MaxRSSKiB: residentKiB(&usage)}
	if status.Signaled() {
		exited.Signal = uint32(status.Signal())
	} else {
		exited.Code = uint32(status.ExitStatus())
	}
	send(control.FD, exited.Append(nil))
	return true
}

// signal sends a signal to the target or to its process group.
func (w *watcher) signal(sig syscall.Signal, group bool) syscall.Errno {
	w.reap()
	switch {
	case !w.reaped && group:
		return errnoOf(syscall.Kill(-w.target, sig))
	case !w.reaped:
		return errnoOf(syscall.Kill(w.target, sig))
	case !group:
		return syscall.ESRCH
	}
	// The group's leader is gone, so that its number may name a stranger: find who of the tree is still in the group.
	w.look()
	result := syscall.ESRCH
	for _, k := range w.family.alive {
		if k.group == w.target {
			if errno := errnoOf(syscall.Kill(k.pid, sig)); result != 0 {
				result = errno
			}
		}
	}
	return result
}

// ask asks everybody in the tree who has not been asked yet to end: SIGTERM, preceded by SIGHUP where there is a terminal, as if it were
// closed (interactive shells ignore SIGTERM). A stopped process only hears it when it continues.
func (w *watcher) ask() {
	for _, k := range w.family.alive {
		if w.asked[k.pid] {
			continue
		}
		w.asked[k.pid] = true
		if w.terminal {
			syscall.Kill(k.pid, syscall.SIGHUP)
		}
		syscall.Kill(k.pid, syscall.SIGTERM)
		syscall.Kill(k.pid, syscall.SIGCONT)
	}
}

// kill sends SIGKILL to the whole tree. A group at once, so that one that keeps forking can't run away from it.
func (w *watcher) kill() {
	if !w.reaped {
		syscall.Kill(-w.target, syscall.SIGKILL)
	}
	for _, k := range w.family.alive {
		syscall.Kill(k.pid, syscall.SIGKILL)
	}
}
