// Package monitor starts gantry-launch processes and talks to them.
//
// It owns: a gantry-launch process, the control socket to it, and the order of the frames on that. It must not know: what the processes
// are for that gantry-launch starts, and what they may do.
//
// Start with [Start] and [Monitor.Order].
package monitor

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/failure"
)

// maxOrdered is how many bytes of orders a gantry-launch may receive: several dozen orders, which make it about a megabyte larger. It
// collects no garbage.
const maxOrdered = 256 << 10

// prepareTime limits the time in which a sandbox is created.
const prepareTime = 5 * time.Second

// Monitor is a gantry-launch process, which waits for an order or monitors the process tree that it has started. It ends when the
// control socket is closed, which happens at the latest when the host ends.
type Monitor struct {
	process *os.Process
	conn    *os.File // the control socket
	plugin  string   // the plugin that its orders were for
	ordered int      // bytes of orders
}

// PID returns the process's id.
func (m *Monitor) PID() int { return m.process.Pid }

// Order sends an order for a plugin, together with the descriptors of the command. It returns the rest of the order, which
// [Tree.Send] sends once [Tree.Listen] reads the responses.
func (m *Monitor) Order(o *control.Order, plugin string, files []*os.File) (rest []byte, err error) {
	frame := o.Append(nil)
	if rest, err = m.send(frame, files); err == nil {
		m.plugin = plugin
		m.ordered += len(frame)
	}
	return rest, err
}

// Serves reports whether the next order may be for this plugin. The memory of a process may contain previous orders, so it serves
// only one plugin; and what it has used for previous trees would count for a tree whose resources are limited.
func (m *Monitor) Serves(plugin string, limited bool) bool {
	return m.ordered == 0 || m.plugin == plugin && !limited
}

// Full reports whether the process has received as many orders as it may.
func (m *Monitor) Full() bool { return m.ordered >= maxOrdered }

// Prepare has the process create a sandbox, which waits for an order. It returns the id of the process in it. It fails with
// the cause of a context that ends meanwhile.
func (m *Monitor) Prepare(x *control.Box, ctxs ...context.Context) (pid int, err error) {
	if err := m.conn.SetDeadline(time.Now().Add(prepareTime)); err != nil {
		return 0, err
	}
	wake := func() { m.conn.SetReadDeadline(time.Now()) }
	stops := make([]func() bool, len(ctxs))
	for i, ctx := range ctxs {
		stops[i] = context.AfterFunc(ctx, wake)
	}
	pid, err = m.prepare(x)
	for i, stop := range stops {
		if !stop() {
			err = context.Cause(ctxs[i])
		}
	}
	return pid, err
}

func (m *Monitor) prepare(x *control.Box) (pid int, err error) {
	rest, err := m.Order(&control.Order{Box: x, Reusable: true}, m.plugin, nil)
	if err == nil && len(rest) > 0 {
		_, err = m.conn.Write(rest)
	}
	if err != nil {
		return 0, err
	}
	frame, err := (&control.Reader{Read: m.conn.Read}).Next() // reads no more than the frame
	if err != nil {
		return 0, err
	}
	if failed, err := frame.Failed(); err == nil {
		return 0, failure.Sandbox(failed.Op.String(), failed.Text, syscall.Errno(failed.Errno))
	}
	prepared, err := frame.Prepared()
	if err != nil {
		return 0, err
	}
	return int(prepared.PID), m.conn.SetDeadline(time.Time{})
}

// Kill ends a process that has received no order: it has no children.
func (m *Monitor) Kill() {
	m.process.Kill()
	m.conn.Close()
	m.process.Wait()
}

// Close ends a process and everything that it has started, and waits for it to end. It is killed when that takes longer than limit.
func (m *Monitor) Close(limit time.Duration) *os.ProcessState {
	m.conn.Close() // which ends it
	stuck := time.AfterFunc(limit, func() { m.process.Kill() })
	defer stuck.Stop()
	state, _ := m.process.Wait()
	return state
}
