package monitor

import (
	"bufio"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Tree is the conversation with a monitor about the process tree that it has been ordered to start. Its methods may be called
// concurrently.
type Tree struct {
	monitor *Monitor

	write struct {
		sync.Mutex      // one frame at a time
		released   bool // the monitor serves another tree
	}
	mu struct {
		sync.Mutex
		seq     uint32
		replies map[uint32]chan syscall.Errno // requests that wait for a reply; nil: no reply will come any more
	}
}

// Follow returns the conversation about the order that the monitor has received.
func (m *Monitor) Follow() *Tree {
	t := &Tree{monitor: m}
	t.mu.replies = make(map[uint32]chan syscall.Errno)
	return t
}

// MonitorPID returns the id of the gantry-launch process.
func (t *Tree) MonitorPID() int { return t.monitor.PID() }

// Send writes a frame, or the rest of one. It ignores errors: they mean that the monitor is gone, which Listen reports.
func (t *Tree) Send(frame []byte) {
	t.write.Lock()
	defer t.write.Unlock()
	if !t.write.released {
		t.monitor.conn.Write(frame)
	}
}

// Kill asks for the end of the tree: SIGTERM, then SIGKILL after the grace.
func (t *Tree) Kill(grace time.Duration) {
	t.Send(control.Kill{GraceMS: uint32(grace.Milliseconds())}.Append(nil))
}

// Abort kills the tree at once and ends the monitor.
func (t *Tree) Abort() {
	t.Kill(0)
	t.write.Lock()
	defer t.write.Unlock()
	if !t.write.released {
		t.monitor.conn.Close()
	}
}

// KillMonitor kills the monitor itself, with which its children die.
func (t *Tree) KillMonitor() {
	t.write.Lock()
	defer t.write.Unlock()
	if !t.write.released {
		t.monitor.process.Kill()
	}
}

// Release returns the monitor after the tree has ended, for the next tree. It receives nothing more about this one.
func (t *Tree) Release() *Monitor {
	t.write.Lock()
	defer t.write.Unlock()
	t.write.released = true
	return t.monitor
}

// Ask sends a request with a sequence number and returns the reply: ESRCH if the tree has ended.
func (t *Tree) Ask(request func(seq uint32) []byte) syscall.Errno {
	reply := make(chan syscall.Errno, 1)
	t.mu.Lock()
	if t.mu.replies == nil {
		t.mu.Unlock()
		return syscall.ESRCH
	}
	t.mu.seq++
	seq := t.mu.seq
	t.mu.replies[seq] = reply
	t.mu.Unlock()
	t.Send(request(seq))
	return <-reply
}

// End answers the requests that still wait, and those to come, with ESRCH.
func (t *Tree) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, reply := range t.mu.replies {
		reply <- syscall.ESRCH
	}
	t.mu.replies = nil
}

// Events are called by Listen, in this order: Started or Failed, then Exited.
type Events struct {
	Started func(pid int)
	Failed  func(control.Failed)
	Exited  func(control.Exited) // of the first process; the rest of the tree may still run
}

// Report is what a monitor has said about a tree.
type Report struct {
	Began   bool // Started or Failed has been called
	Started bool
	Exited  bool
	Free    bool          // nothing of the tree is left, and the monitor waits for another order
	Used    *control.Used // by the whole tree; nil: unknown
	Left    int           // processes that could not be killed
	Text    string        // the last words of a monitor that has crashed
}

// Listen reads frames until the monitor is free, or until the socket is closed or useless.
func (t *Tree) Listen(e Events) (r Report) {
	in := control.Reader{Read: bufio.NewReaderSize(t.monitor.conn, 512).Read}
	for !r.Free {
		frame, err := in.Next()
		if err == nil {
			err = t.handle(frame, e, &r)
		}
		if errors.Is(err, control.ErrText) {
			r.Text = in.Text(4096)
		}
		if err != nil {
			return r
		}
	}
	return r
}

func (t *Tree) handle(frame control.Frame, e Events, r *Report) error {
	switch frame.Kind {
	case control.KindStarted:
		m, err := frame.Started()
		if err != nil || r.Began {
			return control.ErrMalformed
		}
		r.Began, r.Started = true, true
		e.Started(int(m.PID))
	case control.KindFailed:
		m, err := frame.Failed()
		if err != nil || r.Began {
			return control.ErrMalformed
		}
		r.Began = true
		e.Failed(m)
	case control.KindExited:
		m, err := frame.Exited()
		if err != nil || r.Exited || !r.Started {
			return control.ErrMalformed
		}
		r.Exited = true
		e.Exited(m)
	case control.KindReplied:
		m, err := frame.Replied()
		if err != nil {
			return err
		}
		t.mu.Lock()
		reply := t.mu.replies[m.Seq]
		delete(t.mu.replies, m.Seq)
		t.mu.Unlock()
		if reply != nil {
			reply <- syscall.Errno(m.Errno)
		}
	case control.KindUsed:
		if m, err := frame.Used(); err == nil {
			r.Used = &m
		}
	case control.KindLeft:
		if m, err := frame.Left(); err == nil {
			r.Left = int(m.Count)
		}
	case control.KindFree:
		if _, err := frame.Free(); err != nil || !r.Exited {
			return control.ErrMalformed
		}
		r.Free = true
	}
	return nil
}
