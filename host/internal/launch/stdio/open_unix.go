//go:build linux || darwin

package stdio

import (
	"net"
	"os"
	"syscall"

	"github.com/creack/pty"

	"github.com/gantry-agent/gantry/host/internal/launch/failure"
)

// Open opens the descriptors. It returns the three of the process, and the files to close once the process has them. After an error
// the caller closes the streams.
func (s *Streams) Open() (target, opened []*os.File, err error) {
	if s.cfg.Terminal != nil {
		target, opened, err = s.openTerminal()
	} else {
		target, opened, err = s.openPipes()
	}
	if err == nil && s.cfg.Memory > 0 {
		var f *os.File
		if f, err = newMemory(s.cfg.Memory); err != nil {
			return nil, opened, failure.Of("memory", err)
		}
		s.add(Memory, f)
	}
	return target, opened, err
}

// openTerminal opens a pseudo terminal.
func (s *Streams) openTerminal() (target, opened []*os.File, err error) {
	host, tty, err := pty.Open()
	if err != nil {
		return nil, nil, failure.Of("terminal", err)
	}
	opened = append(opened, tty)
	s.add(Terminal, host)
	// Fd makes the file blocking, as the process expects it.
	tty.Fd()
	if err := setSize(host, *s.cfg.Terminal); err != nil {
		return nil, opened, failure.Of("terminal", err)
	}
	return []*os.File{tty, tty, tty}, opened, nil
}

// openPipes opens pipes. The host's ends don't block, so that a plugin can use them with an event loop; the process's ends do.
func (s *Streams) openPipes() (target, opened []*os.File, err error) {
	pipe := func(name string, write bool) *os.File {
		if err != nil {
			return nil
		}
		fds, e := newPipe()
		if e != nil {
			err = failure.Of("pipe", e)
			return nil
		}
		host, other := fds[0], fds[1]
		if write {
			host, other = fds[1], fds[0]
		}
		syscall.SetNonblock(host, true)
		s.add(name, os.NewFile(uintptr(host), name))
		f := os.NewFile(uintptr(other), name)
		opened = append(opened, f)
		return f
	}
	var in *os.File
	if s.cfg.Stdin {
		in = pipe(Stdin, true)
	} else {
		fd, e := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if e != nil {
			return nil, opened, failure.Of("open "+os.DevNull, e)
		}
		in = os.NewFile(uintptr(fd), os.DevNull)
		opened = append(opened, in)
	}
	out := pipe(Stdout, false)
	errs := out
	if !s.cfg.MergeStderr {
		errs = pipe(Stderr, false)
	}
	return []*os.File{in, out, errs}, opened, err
}

// Resize changes the size of the terminal, which sends SIGWINCH to its foreground processes.
func (s *Streams) Resize(size Size) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.files[Terminal]
	switch {
	case f != nil:
		return setSize(f, size)
	case s.cfg.Terminal == nil:
		return ErrNoTerminal
	}
	return os.ErrProcessDone
}

func setSize(f *os.File, size Size) error {
	size = size.withDefaults()
	return pty.Setsize(f, &pty.Winsize{Rows: size.Rows, Cols: size.Cols})
}

// duplicate returns a second descriptor of the same open file.
func duplicate(f *os.File) (*os.File, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := conn.Control(func(raw uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, dupErr = syscall.Dup(int(raw)); dupErr == nil {
			syscall.CloseOnExec(fd)
		}
	}); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// sendFiles sends one message of one byte with the files' descriptors.
func sendFiles(socket *net.UnixConn, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		conn, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if err := conn.Control(func(raw uintptr) { fds[i] = int(raw) }); err != nil {
			return err
		}
	}
	_, _, err := socket.WriteMsgUnix([]byte{0}, syscall.UnixRights(fds...), nil)
	return err
}

func setNonblock(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		conn.Control(func(raw uintptr) { syscall.SetNonblock(int(raw), true) })
	}
}
