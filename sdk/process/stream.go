package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// ends are the plugin's ends of a process's input and output, which are descriptors or parts of an Attach stream.
type ends struct {
	stdin          io.WriteCloser
	stdout, stderr io.ReadCloser
	terminal       *os.File
	memory         *os.File // until it is mapped
}

func (e *ends) close() {
	for _, c := range []io.Closer{e.stdin, e.stdout, e.stderr} {
		if c != nil {
			_ = c.Close()
		}
	}
	for _, f := range []*os.File{e.terminal, e.memory} {
		if f != nil {
			_ = f.Close()
		}
	}
}

const (
	// pipeBytes is the maximum capacity of a pipe of an unprivileged user. When this much has been read after the end of the
	// process, all its output has been read, and further output comes from another process.
	pipeBytes = 1 << 20
	// attachedBytes is the same for an Attach stream, including the buffers of the host and of the connection.
	attachedBytes = 4 << 20
)

// stream is an output that Wait monitors.
type stream struct {
	src      io.ReadCloser
	rest     int64         // how many bytes are read after the end of the process
	activity atomic.Int64  // bytes read
	busy     atomic.Bool   // the bytes read are being written to the caller's writer
	atExit   atomic.Int64  // bytes read when the process ended, plus one; 0: it is running
	ended    chan struct{} // closed at the end of the output
	endOnce  sync.Once
	open     atomic.Bool // cut off while another process could still write
	handed   bool        // the caller reads it
}

func newStream(src io.ReadCloser, rest int64) *stream {
	return &stream{src: src, rest: rest, ended: make(chan struct{})}
}

func (s *stream) markExit() { s.atExit.Store(s.activity.Load() + 1) }

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	total := s.activity.Add(int64(n))
	if at := s.atExit.Load(); err == nil && at > 0 && total-at > s.rest {
		s.cut()
		err = io.EOF
	}
	if err != nil {
		if errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			err = io.EOF // a terminal whose other side is closed, or an output that was cut off
		}
		s.end()
	}
	return n, err
}

// SyscallConn implements [syscall.Conn] if the output is a descriptor.
func (s *stream) SyscallConn() (syscall.RawConn, error) {
	if c, ok := s.src.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close implements [io.Closer].
func (s *stream) Close() error {
	s.end()
	return s.src.Close()
}

func (s *stream) end() { s.endOnce.Do(func() { close(s.ended) }) }

// cut ends the stream although another process could still write.
func (s *stream) cut() {
	select {
	case <-s.ended:
		return
	default:
	}
	s.open.Store(true)
	_ = s.Close()
}

func (s *stream) wasCut() bool { return s.open.Load() && !s.handed }

// copyTo copies until the end of the output. After an error of w it continues to read, so that the process does not block.
func (s *stream) copyTo(w io.Writer) error {
	buf := make([]byte, 32<<10)
	var failed error
	for {
		n, err := s.Read(buf)
		if n > 0 && failed == nil {
			s.busy.Store(true)
			if _, werr := w.Write(buf[:n]); werr != nil {
				failed = werr
			}
			s.activity.Add(1) // the delay counts from now, not from when the bytes were read
			s.busy.Store(false)
		}
		if err == io.EOF {
			return failed
		}
		if err != nil {
			return errors.Join(failed, err)
		}
	}
}

// copy starts goroutines that copy between the process and the fields of c.
func (c *Cmd) copy() {
	for _, s := range c.streams {
		w := c.Stdout
		late := c.wantStdout
		if s.src == c.ends.stderr {
			w, late = c.Stderr, c.wantStderr
		}
		if late != nil {
			s.handed = true
			late.set(s)
			continue
		}
		if w == nil {
			w = io.Discard
		}
		c.copies.Go(func() { c.fail(s.copyTo(w)) })
	}
	if c.wantStdin != nil {
		c.wantStdin.set(c.ends.stdin)
	} else if c.Stdin != nil && c.ends.stdin != nil {
		in, stdin := c.Stdin, c.ends.stdin
		// Owned by this Cmd. It ends with the reader or with the process. Wait does not wait for it, because a blocked Read
		// can't be interrupted.
		go func() {
			_, err := io.Copy(stdin, in)
			if cerr := stdin.Close(); err == nil {
				err = cerr
			}
			if !brokenPipe(err) {
				c.fail(err)
			}
		}()
	}
}

// brokenPipe reports whether err means that the program did not read all its input, or that Wait has closed the pipe.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe)
}

func (c *Cmd) fail(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.copyErr == nil {
		c.mu.copyErr = err
	}
}

// StdinPipe returns a writer to the program's stdin, or to its terminal. It must be called before Start. Closing it ends the
// program's input; with a terminal, Close does nothing.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.started || c.Stdin != nil || c.wantStdin != nil {
		return nil, errors.New("process: StdinPipe called after Start, or Stdin already set")
	}
	c.wantStdin = &lateWriter{}
	return c.wantStdin, nil
}

// StdoutPipe returns a reader of the program's stdout, or of its terminal. It must be called before Start. Read it to its end
// before calling Wait, which closes it, without an error, if nothing has been read for WaitDelay after the process has ended.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	if c.started || c.Stdout != nil || c.wantStdout != nil {
		return nil, errors.New("process: StdoutPipe called after Start, or Stdout already set")
	}
	c.wantStdout = &lateReader{}
	return c.wantStdout, nil
}

// StderrPipe returns a reader of the program's stderr. See [Cmd.StdoutPipe].
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	if c.started || c.Stderr != nil || c.wantStderr != nil {
		return nil, errors.New("process: StderrPipe called after Start, or Stderr already set")
	}
	c.wantStderr = &lateReader{}
	return c.wantStderr, nil
}

var errNotStarted = errors.New("process: not started")

// lateReader and lateWriter are returned before Start, when there is no stream yet.
type lateReader struct{ r atomic.Pointer[stream] }

func (l *lateReader) set(s *stream) { l.r.Store(s) }

func (l *lateReader) Read(p []byte) (int, error) {
	if s := l.r.Load(); s != nil {
		return s.Read(p)
	}
	return 0, errNotStarted
}

func (l *lateReader) SyscallConn() (syscall.RawConn, error) {
	if s := l.r.Load(); s != nil {
		return s.SyscallConn()
	}
	return nil, errNotStarted
}

func (l *lateReader) Close() error {
	if s := l.r.Load(); s != nil {
		return s.Close()
	}
	return nil
}

type lateWriter struct{ w atomic.Value }

type writerBox struct{ io.WriteCloser }

func (l *lateWriter) set(w io.WriteCloser) { l.w.Store(writerBox{w}) }

func (l *lateWriter) Write(p []byte) (int, error) {
	if b, ok := l.w.Load().(writerBox); ok && b.WriteCloser != nil {
		return b.Write(p)
	}
	return 0, errNotStarted
}

func (l *lateWriter) Close() error {
	if b, ok := l.w.Load().(writerBox); ok && b.WriteCloser != nil {
		return b.Close()
	}
	return nil
}
