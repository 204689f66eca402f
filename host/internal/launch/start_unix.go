//go:build linux || darwin

package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/creack/pty"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// launch hands the order and the target's descriptors to a gantry-launch; with x to one that has that box, which may have waited. It
// returns what of the order is still to be sent.
func (p *Process) launch(ctx context.Context, o *control.Order, x *control.Box) (rest []byte, err error) {
	var target, opened []*os.File
	defer func() {
		for _, f := range opened {
			f.Close() // duplicates have travelled
		}
		if err != nil {
			p.closeFiles()
		}
	}()
	if p.spec.Terminal != nil {
		target, opened, err = p.openTerminal()
	} else {
		target, opened, err = p.openPipes()
	}
	if err != nil {
		return nil, err
	}
	if k := p.spec.Keep; k != nil && k.Memory > 0 {
		f, err := newMemory(k.Memory)
		if err != nil {
			return nil, launchError("memory", err)
		}
		p.keep(Memory, f)
	}
	if p.listens {
		pair, err := newSocketpair()
		if err != nil {
			return nil, launchError("socketpair", err)
		}
		p.offer = pollable(pair[0], "listener")
		peer := os.NewFile(uintptr(pair[1]), "listener")
		target, opened = append(target, peer), append(opened, peer)
	}
	if x != nil { // it is made, or has been
		made := *x
		made.Args = nil
		o.Box = &made
	}
	order := o.Append(nil)
	m, waited, err := p.takeMonitor(ctx, x)
	if err != nil {
		return nil, err
	}
	rest, err = m.order(order, target)
	if waited && errors.Is(err, syscall.EPIPE) { // it ended just now, and has read nothing
		m.end()
		if m, err = p.newMonitor(ctx, x); err != nil {
			return nil, err
		}
		rest, err = m.order(order, target)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) { // one that has crashed is asked for its last words
		m.end()
		return nil, launchError("send the order", err)
	}
	m.plugin = p.spec.Owner.Plugin
	m.ordered += len(order)
	p.monitor, p.conn = m, m.conn
	return rest, nil
}

// listener takes over what listens in the box. It was sent before the launcher said that the process runs.
func (p *Process) listener() (net.Listener, error) {
	raw, err := p.offer.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, syscall.CmsgSpace(4))
	var n, oobn int
	if rerr := raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, err = syscall.Recvmsg(int(fd), make([]byte, 1), oob, flagCloexec)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	}); rerr != nil {
		return nil, rerr
	}
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || n == 0 || len(messages) != 1 {
		return nil, errors.New("gantry-launch sent none")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("gantry-launch sent none")
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close() // it is duplicated
	return net.FileListener(f)
}

// openTerminal makes a pseudo terminal and returns the target's three descriptors, which are one.
func (p *Process) openTerminal() (target, opened []*os.File, err error) {
	host, tty, err := pty.Open()
	if err != nil {
		return nil, nil, launchError("terminal", err)
	}
	opened = append(opened, tty)
	p.keep(Terminal, host)
	// Fd makes it blocking: the setting is shared with the target, which expects that.
	tty.Fd()
	size := p.spec.Terminal.withDefaults()
	if err := pty.Setsize(host, &pty.Winsize{Rows: size.Rows, Cols: size.Cols}); err != nil {
		return nil, opened, launchError("terminal", err)
	}
	return []*os.File{tty, tty, tty}, opened, nil
}

// openPipes makes the target's three descriptors. The host's ends don't block (the setting is theirs alone, the target's
// ends do): who takes them over can use them with an event loop right away.
func (p *Process) openPipes() (target, opened []*os.File, err error) {
	pipe := func(name string, write bool) *os.File {
		if err != nil {
			return nil
		}
		fds, e := newPipe()
		if e != nil {
			err = launchError("pipe", e)
			return nil
		}
		host, other := fds[0], fds[1]
		if write {
			host, other = fds[1], fds[0]
		}
		p.keep(name, pollable(host, name))
		f := os.NewFile(uintptr(other), name)
		opened = append(opened, f)
		return f
	}
	var in *os.File
	if p.spec.Stdin {
		in = pipe(Stdin, true)
	} else {
		fd, e := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if e != nil {
			return nil, opened, launchError("open "+os.DevNull, e)
		}
		in = os.NewFile(uintptr(fd), os.DevNull)
		opened = append(opened, in)
	}
	out := pipe(Stdout, false)
	errs := out
	if !p.spec.MergeStderr {
		errs = pipe(Stderr, false)
	}
	return []*os.File{in, out, errs}, opened, err
}

// keep notes a descriptor of the host's.
func (p *Process) keep(name string, f *os.File) {
	p.names = append(p.names, name)
	p.mu.Lock()
	p.mu.files[name] = f
	p.mu.Unlock()
}

// pollable makes a file of a descriptor that the runtime's poller watches.
func pollable(fd int, name string) *os.File {
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// launchError is for steps of our own: out of descriptors, of terminals.
func launchError(op string, err error) error {
	e := &StartError{Op: op, Message: err.Error(), Err: err}
	if errno, ok := errnoIn(err); ok {
		e.Errno, e.Message, e.Err = errno, Strerror(errno), nil
	}
	return e
}

// Resize changes the size of the process's terminal. Its foreground processes are told by SIGWINCH.
func (p *Process) Resize(rows, cols uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.mu.files[Terminal]
	if f == nil {
		if p.spec.Terminal == nil {
			return fmt.Errorf("process %d has no terminal to resize", p.pid)
		}
		return os.ErrProcessDone
	}
	size := Size{Rows: rows, Cols: cols}.withDefaults()
	if err := pty.Setsize(f, &pty.Winsize{Rows: size.Rows, Cols: size.Cols}); err != nil {
		return fmt.Errorf("resize the terminal of process %d: %w", p.pid, err)
	}
	return nil
}
