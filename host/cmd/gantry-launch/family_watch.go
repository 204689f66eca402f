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

// markEnv names the variable by which processes of a tree are found that have left their parent and their session.
const markEnv = "GANTRY_TREE"

// lookAgain is the shortest time between two scans because of forks. A build forks a thousand times a second.
const lookAgain = 20 * time.Millisecond

// watcher is the state of the first stage. One goroutine does everything.
type watcher struct {
	target   int // also its process group and session
	terminal bool
	boxed    bool // the tree ends with the target
	reaped   bool // the target
	tree     *tree
	events   *events
	ladder   ladder
	asked    map[int]bool // processes that have got SIGTERM
	grace    time.Duration
}

// watch starts the target and waits until its tree has ended. It does not return.
func watch() {
	closeFrom(3)
	syscall.Chdir("/") // don't keep the host's folder busy
	in, frame, target, err := receiveOrder()
	if err != nil {
		syscall.Exit(1) // the host does not need us, or has ended
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
		syscall.Close(fd) // only the target may have them, so that readers notice its end
	}
	w.tree = newTree(w.target, os.Getpid(), func(pid int) (marked, sure bool) { return carries(pid, mark) })
	w.look() // before the target can be reaped: its start time identifies older processes
	send(control.FD, control.Started{PID: uint32(w.target)}.Append(nil))
	w.stay(in)
	syscall.Exit(0)
}

// receiveOrder waits for the order. The target's descriptors come with its first byte.
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
			target, _ = syscall.ParseUnixRights(&messages[0]) // an order without descriptors is refused
		}
		for _, fd := range target {
			syscall.CloseOnExec(fd)
		}
		return n, nil
	}
	frame, err = in.Next()
	return in, frame, target, err
}

// start starts the second stage, in the sandbox if there is one, and returns once it has executed the target.
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
	next.Box = nil // the stage is in it already
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

// stay handles the host's requests until the tree has ended. When the host has ended it ends the tree.
func (w *watcher) stay(in *control.Reader) {
	gone, looked := false, time.Time{}
	due := true // a scan
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
		if w.reaped && len(w.tree.alive) == 0 && !due {
			return
		}
		switch todo {
		case stepAsk:
			w.ask()
		case stepKill:
			w.kill()
		case stepGiveUp:
			w.kill()
			send(control.FD, control.Left{Count: uint32(len(w.tree.alive))}.Append(nil))
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

// look scans the process table, and subscribes to the events of new processes of the tree. It repeats that while it finds any, because
// they may have forked before the subscription. It reports whether it has found everything: there are no events for a process that ended
// in between.
func (w *watcher) look() (all bool) {
	all = true
	for range 8 {
		table := processes()
		if len(table) == 0 { // it failed: we are in the table
			return false
		}
		_, fresh := w.tree.learn(table)
		if len(fresh) == 0 {
			return all && !w.tree.unsure
		}
		for _, pid := range fresh {
			all = w.events.watch(pid) && all
		}
	}
	return false
}

// reap reaps the target and reports its end. It returns true when it has done that. All other processes are children of others.
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
	w.look() // find what it has left running before the end is reported
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
	// The group's leader is gone, so its id may belong to another process. Signal the members of the group that are in the tree.
	w.look()
	result := syscall.ESRCH
	for _, k := range w.tree.alive {
		if k.group == w.target {
			if errno := errnoOf(syscall.Kill(k.pid, sig)); result != 0 {
				result = errno
			}
		}
	}
	return result
}

// ask asks the processes of the tree that it has not asked yet to end: with SIGTERM, after SIGHUP if there is a terminal, as if it were
// closed (interactive shells ignore SIGTERM), and with SIGCONT, because a stopped process handles signals only after it continues.
func (w *watcher) ask() {
	for _, k := range w.tree.alive {
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

// kill sends SIGKILL to the whole tree. The target's group is signalled atomically, so that it can't escape by forking.
func (w *watcher) kill() {
	if !w.reaped {
		syscall.Kill(-w.target, syscall.SIGKILL)
	}
	for _, k := range w.tree.alive {
		syscall.Kill(k.pid, syscall.SIGKILL)
	}
}
