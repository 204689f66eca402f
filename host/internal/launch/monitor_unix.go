//go:build linux || darwin

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// A gantry-launch takes a millisecond to start, most of it the runtime's, and its end takes as much again. So there is one more than
// there are processes: the spare, which waits for its order while the model thinks. It holds nothing of the host's but its end of the
// socket, and ends when the host does. When the tree of a process has ended its launcher becomes the spare, if there is none.
//
// A launcher may still have in its memory what it was ordered. So one that was used serves the same plugin again and nobody else, and
// not for ever: it collects no garbage.

// maxOrdered is how many bytes of orders a launcher takes: some dozens of them, which make it about a megabyte larger.
const maxOrdered = 256 << 10

// startMonitor starts a gantry-launch, which then waits for its order.
func (l *Launcher) startMonitor() (*monitor, error) {
	pair, err := newSocketpair()
	if err != nil {
		return nil, launchError("socketpair", err)
	}
	peer := os.NewFile(uintptr(pair[1]), "control")
	defer peer.Close()
	conn := pollable(pair[0], "control")
	held := peer
	for _, k := range l.keepers() {
		if f := k.Held(); f != nil {
			defer f.Close()
			held = f
		}
	}
	process, err := os.StartProcess(l.cfg.LauncherPath, []string{"gantry-launch"}, &os.ProcAttr{
		// Nothing of the host's environment: it may hold keys.
		Env:   []string{control.StageEnv + "=" + control.StageWatch, "GOGC=off"},
		Files: []*os.File{control.FD: peer, control.HeldFD: held, 2: peer},
		// Out of reach of the terminal's Ctrl-C, which is the host's to handle.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	return &monitor{process: process, conn: conn}, nil
}

// firstPiece of an order travels with the descriptors: what any socket takes at once.
const firstPiece = 16 << 10

// order sends the beginning of an order together with the target's descriptors. It returns what is left of the order.
func (m *monitor) order(frame []byte, target []*os.File) (rest []byte, err error) {
	var fds []int
	for _, f := range target {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	n := 0
	werr := raw.Write(func(fd uintptr) bool {
		for {
			n, err = syscall.SendmsgN(int(fd), frame[:min(len(frame), firstPiece)], rights, nil, flagNoSignal)
			if err != syscall.EINTR {
				return true
			}
		}
	})
	if werr != nil {
		return nil, werr
	}
	return frame[n:], err
}

// waits reports whether a monitor waits for its order. One that says something, or has closed its socket, has ended.
func (m *monitor) waits() bool {
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN
		return true
	})
	return err == nil && silent
}

// end ends a monitor that has got no order: nothing is below it.
func (m *monitor) end() {
	m.process.Kill()
	m.conn.Close()
	m.process.Wait()
}

// takeMonitor returns one that has the box x, if there is one, or else the spare or a new one. waited: it was there already.
func (p *Process) takeMonitor(ctx context.Context, x *control.Box) (m *monitor, waited bool, err error) {
	if x != nil {
		if r := p.l.takeReady(x, &p.spec); r != nil {
			p.take(r, x)
			p.madeAhead, p.reused = true, r.used
			return r.monitor, true, nil
		}
		m, err = p.newMonitor(ctx, x)
		return m, false, err
	}
	return p.l.takeSpare(&p.spec)
}

// newMonitor returns a new one, with the box x if there is one.
func (p *Process) newMonitor(ctx context.Context, x *control.Box) (*monitor, error) {
	p.box, p.madeAhead, p.reused = nil, false, false
	if x == nil {
		return p.l.startMonitor()
	}
	m, _, err := p.l.takeSpare(&p.spec)
	if err != nil {
		return nil, err
	}
	r, err := p.l.makeReady(ctx, m, x)
	if err != nil {
		return nil, err
	}
	p.take(r, x)
	return r.monitor, nil
}

// take notes that the process runs in a box, confined as x says.
func (p *Process) take(r *ready, x *control.Box) {
	r.box, p.box = x, r
}

// takeSpare returns the spare, or a new one where there is none for this process.
func (l *Launcher) takeSpare(s *Spec) (m *monitor, spare bool, err error) {
	l.mu.Lock()
	m = l.mu.spare
	l.mu.spare = nil
	l.mu.Unlock()
	if m != nil {
		if m.serves(s) && m.waits() {
			return m, true, nil
		}
		m.end()
	}
	m, err = l.startMonitor()
	return m, false, err
}

// serves reports whether the next process may be this one. Where its tree is counted, what the launcher has seen of others would count.
func (m *monitor) serves(s *Spec) bool {
	return m.ordered == 0 || m.plugin == s.Owner.Plugin && !s.Grant.Limits.OfTree()
}

// full reports whether it has taken as many orders as it may.
func (m *monitor) full() bool { return m.ordered >= maxOrdered }

// keepMonitor makes one whose tree has ended the spare, unless there is one or it has had enough. It reports whether it did.
func (l *Launcher) keepMonitor(m *monitor) bool {
	l.mu.Lock()
	keep := !l.mu.closed && l.mu.spare == nil && !m.full()
	if keep {
		l.mu.spare = m
	}
	l.mu.Unlock()
	if !keep {
		m.end()
	}
	return keep
}

// spare sees to it that there is one, in the background: once p's tree has ended, and its launcher with it, or runs for longer, for
// while that begins it should have the processors to itself. When the spare can't be started, the next Spawn tells why.
func (l *Launcher) spare(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || l.mu.spare != nil || l.mu.sparing != nil {
		return
	}
	l.mu.sparing = make(chan struct{})
	l.work.Go(func() { // waited for by Close, which has ended p
		late := time.NewTimer(l.spareAfter)
		defer late.Stop()
		has := false
		select {
		case <-p.gone:
			has = p.kept // the next process may have it already, and sees to another
		case <-late.C:
		}
		var m *monitor
		if !has {
			m, _ = l.startMonitor()
		}
		l.mu.Lock()
		close(l.mu.sparing)
		l.mu.sparing = nil
		if m != nil && !l.mu.closed && l.mu.spare == nil {
			l.mu.spare, m = m, nil
		}
		l.mu.Unlock()
		if m != nil {
			m.end()
		}
	})
}

// endSpare ends the spare; after the launcher was closed there is none any more.
func (l *Launcher) endSpare() {
	l.mu.Lock()
	m := l.mu.spare
	l.mu.spare = nil
	l.mu.Unlock()
	if m != nil {
		m.end()
	}
}

// prepareBound is how long making a box ahead may take.
const prepareBound = 5 * time.Second

// makeReady has a launcher make a box that waits for its process; nil is a new one.
func (l *Launcher) makeReady(ctx context.Context, m *monitor, x *control.Box) (*ready, error) {
	if m == nil {
		var err error
		if m, err = l.startMonitor(); err != nil {
			return nil, err
		}
	}
	if err := m.conn.SetDeadline(time.Now().Add(prepareBound)); err != nil {
		m.end()
		return nil, err
	}
	// What ends the wait does it by way of what is waited for.
	wake := func() { m.conn.SetReadDeadline(time.Now()) }
	stops := []func() bool{context.AfterFunc(l.closing, wake), context.AfterFunc(ctx, wake)}
	pid, err := m.prepare(x)
	for i, over := range []error{ErrClosed, context.Cause(ctx)} {
		if !stops[i]() && over != nil {
			err = over
		}
	}
	r := &ready{monitor: m, box: x, stage: pid}
	if err == nil {
		var ok bool
		if r.mounts, ok = mountsOf(pid); !ok {
			err = errors.New("what is mounted in it can't be found out")
		}
	}
	if err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// prepare orders the box, and returns the process in it.
func (m *monitor) prepare(x *control.Box) (pid int, err error) {
	order := (&control.Order{Box: x, Again: true}).Append(nil)
	m.ordered += len(order)
	rest, err := m.order(order, nil)
	if err == nil && len(rest) > 0 {
		_, err = m.conn.Write(rest)
	}
	if err != nil {
		return 0, err
	}
	frame, err := (&control.Reader{Read: m.conn.Read}).Next() // takes no more than the frame
	if err != nil {
		return 0, err
	}
	if failed, err := frame.Failed(); err == nil {
		errno := syscall.Errno(failed.Errno)
		return 0, &StartError{Op: failed.Op.String(), Message: boxProblem(failed.Text, errno), Errno: errno}
	}
	prepared, err := frame.Prepared()
	if err != nil {
		return 0, err
	}
	return int(prepared.PID), m.conn.SetDeadline(time.Time{})
}
