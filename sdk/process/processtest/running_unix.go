//go:build unix

package processtest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// running is a process with the plugin's ends of its descriptors.
type running struct {
	id       string
	session  bool
	keep     *gantryv1.Keep
	released bool
	started  time.Time
	cmd      *exec.Cmd
	names    []string
	files    []*os.File
	done     chan struct{}
	terminal *os.File
	exit     *gantryv1.WaitResponse // set when done is closed
}

func start(req *gantryv1.SpawnRequest) (_ *running, err error) {
	cmd := exec.Command(req.GetArgv()[0], req.GetArgv()[1:]...)
	cmd.Dir = req.GetCwd()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	for k, v := range req.GetEnv() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	p := &running{cmd: cmd, done: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			p.close()
		}
	}()
	pipe := func(name string, read bool) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		mine, other := r, w
		if !read {
			mine, other = w, r
		}
		p.names, p.files, theirs = append(p.names, name), append(p.files, mine), append(theirs, other)
		return other, nil
	}
	if n := req.GetKeep().GetMemoryBytes(); n > 0 {
		f, err := os.CreateTemp("", "memory")
		if err != nil {
			return nil, err
		}
		_ = os.Remove(f.Name())
		p.names, p.files = append(p.names, "memory"), append(p.files, f)
		if err := f.Truncate(int64(n)); err != nil {
			return nil, err
		}
	}
	if size := req.GetTerminal(); size != nil {
		ptmx, tty, err := pty.Open()
		if err != nil {
			return nil, err
		}
		_ = pty.Setsize(ptmx, &pty.Winsize{Rows: or(size.GetRows(), 24), Cols: or(size.GetCols(), 80)})
		theirs = append(theirs, tty)
		p.names, p.files, p.terminal = append(p.names, "terminal"), append(p.files, ptmx), ptmx
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		return p, cmd.Start()
	}
	if req.GetStdin() {
		f, err := pipe("stdin", false)
		if err != nil {
			return nil, err
		}
		cmd.Stdin = f
	}
	out, err := pipe("stdout", true)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	if !req.GetMergeStderr() {
		f, err := pipe("stderr", true)
		if err != nil {
			return nil, err
		}
		cmd.Stderr = f
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p, cmd.Start()
}

func or(v, otherwise uint32) uint16 {
	if v == 0 {
		v = otherwise
	}
	return uint16(v)
}

func startError(err error) *gantryv1.SpawnError {
	e := &gantryv1.SpawnError{Message: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Message, e.Errno = errno.Error(), int32(errno)
	} else if errors.Is(err, exec.ErrNotFound) {
		e.Message, e.Errno = syscall.ENOENT.Error(), int32(syscall.ENOENT)
	}
	return e
}

// reap waits for the process itself, not for its descendants.
func (p *running) reap() {
	_ = p.cmd.Wait()
	s := p.cmd.ProcessState
	p.exit = &gantryv1.WaitResponse{
		ExitCode: int32(s.ExitCode()),
		UserMs:   s.UserTime().Milliseconds(), SystemMs: s.SystemTime().Milliseconds(),
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.exit.Signal, p.exit.ExitCode = int32(ws.Signal()), 128+int32(ws.Signal())
	}
	close(p.done)
}

func (p *running) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *running) signal(req *gantryv1.SignalRequest) error {
	if r := req.GetResize(); r != nil && p.terminal != nil {
		return pty.Setsize(p.terminal, &pty.Winsize{Rows: or(r.GetRows(), 24), Cols: or(r.GetCols(), 80)})
	}
	sig := syscall.Signal(req.GetSignal())
	if req.GetKillTree() {
		sig = syscall.SIGKILL
	}
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

func (p *running) close() {
	for _, f := range p.files {
		_ = f.Close()
	}
}

func (p *running) file(name string) *os.File {
	for i, n := range p.names {
		if n == name {
			return p.files[i]
		}
	}
	return nil
}

// Attach implements HostService. If descendants keep the output open, the plugin ends the stream.
func (h *Host) Attach(stream gantryv1.HostService_AttachServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	p, err := h.process(first.GetProcessId())
	if err != nil {
		return err
	}
	if in := p.file("stdin"); in != nil && first.GetCloseStdin() && len(first.GetStdin()) == 0 {
		return in.Close() // the plugin has the descriptors, so only the host's duplicate keeps stdin open
	}
	var sending sync.Mutex
	send := func(m *gantryv1.AttachResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(m)
	}
	go func() { // owned by the RPC; ends with the client's side of the stream
		p.input(first, stream)
	}()
	var outputs sync.WaitGroup
	for _, name := range []string{"stdout", "stderr", "terminal"} {
		if f := p.file(name); f != nil {
			outputs.Go(func() { p.pump(stream.Context(), f, name == "stderr", send) })
		}
	}
	outputs.Wait()
	select {
	case <-p.done:
		return send(&gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Exited{Exited: p.exit}})
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

const (
	trailing = 50 * time.Millisecond // for how long output that other processes keep open is read after the process has ended
	maxPipe  = 1 << 20               // how much of it is read
)

// pump sends one output until it ends, until a pause after the process has ended, or until ctx ends.
func (p *running) pump(ctx context.Context, f *os.File, stderr bool, send func(*gantryv1.AttachResponse) error) {
	wake := make(chan struct{})
	defer close(wake)
	go func() { // owned by pump, and ends with it
		select {
		case <-p.done:
		case <-ctx.Done():
		case <-wake:
			return
		}
		_ = f.SetReadDeadline(time.Unix(1, 0))
	}()
	buf := make([]byte, 32<<10)
	ended, rest := false, maxPipe
	for rest > 0 && ctx.Err() == nil {
		n, err := f.Read(buf)
		if ended {
			rest -= n
		}
		if n > 0 {
			m := &gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Stdout{Stdout: buf[:n]}}
			if stderr {
				m = &gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Stderr{Stderr: buf[:n]}}
			}
			if send(m) != nil {
				return
			}
		}
		if err != nil && (ended || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return
		}
		ended = ended || err != nil
		if ended {
			_ = f.SetReadDeadline(time.Now().Add(trailing))
		}
	}
}

// input copies the plugin's messages to stdin, beginning with the first one.
func (p *running) input(m *gantryv1.AttachRequest, stream gantryv1.HostService_AttachServer) {
	in, terminal := p.file("stdin"), p.file("terminal")
	for {
		if data := m.GetStdin(); len(data) > 0 {
			if w := firstFile(in, terminal); w != nil {
				_, _ = w.Write(data)
			}
		}
		if m.GetCloseStdin() && in != nil {
			_ = in.Close()
		}
		var err error
		if m, err = stream.Recv(); err != nil {
			if err == io.EOF && in != nil {
				_ = in.Close()
			}
			return
		}
	}
}

func firstFile(files ...*os.File) *os.File {
	for _, f := range files {
		if f != nil {
			return f
		}
	}
	return nil
}
