package launch

import (
	"fmt"
	"os"
	"syscall"

	"github.com/creack/pty"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// launch starts gantry-launch with the target's descriptors. It has not been told yet what to start.
func (p *Process) launch() (err error) {
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
		return err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return launchError("socketpair", err)
	}
	peer := os.NewFile(uintptr(pair[1]), "control")
	opened = append(opened, peer)
	p.conn = pollable(pair[0], "control")
	p.monitor, err = os.StartProcess(p.l.cfg.LauncherPath, []string{"gantry-launch"}, &os.ProcAttr{
		// Nothing of the host's environment: it may hold keys.
		Env:   []string{control.StageEnv + "=" + control.StageWatch, "GOGC=off"},
		Files: append([]*os.File{peer, peer, peer}, target...),
		// Out of reach of the terminal's Ctrl-C, which is the host's to handle.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		p.conn.Close()
		return fmt.Errorf("start the launcher: %w", err)
	}
	return nil
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
		var fds [2]int
		if err != nil {
			return nil
		}
		if e := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); e != nil {
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
