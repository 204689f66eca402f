// Package session manages commands that run longer than the call that started them, and stores their output until it is requested.
//
// It owns: session IDs, output that was not returned yet, waiting for output, the limit of sessions and their eviction, and what is
// remembered of sessions that have ended. It must not know: how a process is started or confined, what a model reads, tools and
// calls.
//
// Start with [Store] and [Session].
package session

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/output"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/record"
)

const (
	// RecordBytes is the maximum amount of output that is stored until it is returned. Beyond it, the middle is dropped and counted.
	RecordBytes = 1 << 20
	// viewBytes is the size of the end of the output that a person sees who begins to watch.
	viewBytes = 64 << 10
	// tailBytes is the size of the end of the output that is remembered after a session has ended.
	tailBytes = 2 << 10
	// outputGrace is the time to wait for the end of the output after the process has ended. Later output comes from other
	// processes that have inherited the pipe.
	outputGrace = 50 * time.Millisecond
	// outputRounds limits how often the wait is repeated while output arrives, because another process may write forever.
	outputRounds = 20
	// inputTime is the maximum duration of typing, which blocks if the terminal's buffer of a few kilobytes is full.
	inputTime = 5 * time.Second
)

// ErrClosedStdin is returned by Write for a session without a terminal.
var ErrClosedStdin = errors.New("stdin is closed for this session; rerun exec_command with tty=true to keep stdin open")

// Process is a started program. It is implemented by *process.Cmd.
type Process interface {
	Done() <-chan struct{}
	Exit() (process.Exit, bool)
	Signal(sig os.Signal) error
	Resize(size process.Size) error
	Kill() error
	Wait() error
	// Release releases what the host keeps for a later process of the plugin. It is called once, after all other methods.
	Release() error
}

// Info describes a session. It is known from the start, also to a process that adopts the session.
type Info struct {
	Command   string `json:"command"` // as the model wrote it
	Cwd       string `json:"cwd"`
	TTY       bool   `json:"tty,omitempty"`
	Escalated bool   `json:"escalated,omitempty"` // runs outside the sandbox
	Sandboxed bool   `json:"sandboxed,omitempty"`
}

// Program is a running program.
type Program struct {
	Info
	Process Process
	In      io.Writer // the terminal's input; nil: no terminal
	Out     io.ReadCloser
	// Record stores its output; its size is RecordBytes. nil: a record that is lost with this process.
	Record *record.Record
	// Live receives output as it appears, until [Session.Open] or [Session.Mute] is called.
	Live func([]byte)

	onStart func(*Session) // called before output is read; may be nil
}

// Viewer displays a session that outlives its call.
type Viewer interface {
	Write(p []byte) (int, error)
	Exited(code int)
	Denied(code int)
	Lost()
}

// Session is a command that was started. It is safe for concurrent use.
type Session struct {
	Info
	ID int

	process     Process
	in          io.Writer // of the terminal
	out         io.ReadCloser
	pending     *record.Record  // output that was not returned yet
	stopWaiting <-chan struct{} // closed when waiting for more of it should end

	interaction chan struct{} // has a token while no call interacts with the session
	typing      chan struct{} // has a token while nothing is being typed
	exited      chan struct{} // closed when the process has ended
	over        chan struct{} // closed when the process has ended and its output has been read
	closed      chan struct{} // closed when its output has ended
	work        sync.WaitGroup
	release     sync.Once // of its resources

	received atomic.Int64 // bytes of output

	mu struct {
		sync.Mutex
		tail     *output.Buffer // of viewBytes; of tailBytes when its end was returned
		end      int64          // bytes of output up to the end of tail
		live     func([]byte)   // shows output as it appears
		viewer   Viewer
		watchers []Watcher
		over     bool // the viewer was notified of the end, or is when it is set
		code     int
		known    bool // whether code is known
		lastUsed time.Time
	}
}

// newSession starts reading the output of a program and waiting for its end.
func newSession(id int, p Program, hurry <-chan struct{}) (*Session, error) {
	s := &Session{
		ID: id, Info: p.Info, process: p.Process, in: p.In, out: p.Out, pending: p.Record, stopWaiting: hurry,
		interaction: make(chan struct{}, 1), typing: make(chan struct{}, 1), exited: make(chan struct{}), over: make(chan struct{}), closed: make(chan struct{}),
	}
	if s.pending == nil {
		var err error
		if s.pending, err = record.New(nil, RecordBytes); err != nil {
			return nil, err
		}
	}
	s.interaction <- struct{}{}
	s.typing <- struct{}{}
	s.mu.tail, s.mu.live = output.NewTail(viewBytes), p.Live
	s.mu.tail.Absorb(output.Output(s.pending.Peek())) // of an adopted session
	s.mu.end = s.pending.Total()
	s.mu.lastUsed = time.Now()
	if p.onStart != nil {
		p.onStart(s)
	}
	s.work.Go(s.read)
	s.work.Go(s.watch)
	return s, nil
}

// read reads the output until its end. Other processes may keep the pipe open after the process has ended; release closes it.
func (s *Session) read() {
	defer close(s.closed)
	for {
		piece, err := s.pending.ReadPiece(s.out)
		if len(piece) > 0 {
			s.mu.Lock()
			s.mu.tail.Write(piece)
			live := s.mu.live
			for _, w := range s.mu.watchers {
				w.Output(s.mu.end, piece)
			}
			s.mu.end += int64(len(piece))
			s.mu.Unlock()
			s.received.Add(int64(len(piece)))
			if live != nil {
				live(piece)
			}
		}
		if err != nil {
			return
		}
	}
}

// watch waits for the end of the process and of its output, and notifies the viewer.
func (s *Session) watch() {
	<-s.process.Done()
	exit, known := s.process.Exit()
	s.mu.Lock()
	s.mu.code, s.mu.known = exit.Code, known
	s.mu.Unlock()
	close(s.exited)
	s.awaitOutput()
	s.mu.Lock()
	s.mu.over = true
	viewer := s.mu.viewer
	s.mu.Unlock()
	close(s.over)
	if viewer != nil {
		s.reportEnd(viewer)
	}
	<-s.closed
	_ = s.process.Wait() // releases resources; the exit code is known
}

// awaitOutput waits for the rest of the output after the process has ended. It repeats the wait while output is arriving or unread,
// so that no output of the process is lost on a busy machine.
func (s *Session) awaitOutput() {
	for seen, rounds := int64(-1), 0; rounds < outputRounds; rounds++ {
		now := s.received.Load()
		if now == seen && !unread(s.out) {
			return
		}
		seen = now
		t := time.NewTimer(outputGrace)
		select {
		case <-s.closed:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

func (s *Session) reportEnd(v Viewer) {
	code, known := s.Code()
	switch {
	case !known:
		v.Lost()
	case s.Denied():
		v.Denied(code)
	default:
		v.Exited(code)
	}
}

// Code returns the exit code. It returns false while the session is running, or if the code is unknown.
func (s *Session) Code() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.code, s.mu.known
}

// Exited reports whether the process has ended.
func (s *Session) Exited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// Denied reports whether the sandbox has probably blocked the session.
func (s *Session) Denied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.known && s.Sandboxed && looksDenied(s.mu.code, s.tailLocked())
}

// The mark of a session's record contains what the model and the host know about it: endTaken if its end was returned to the model, and
// in the other bits the number of bytes of output when it was opened, plus one; 0 if it was not opened.
const (
	endTaken   = 1 << 62
	openedBits = endTaken - 1
)

// Open sets the viewer, which replaces Program.Live.
func (s *Session) Open(v Viewer) {
	s.pending.SetMark(s.pending.Mark()&endTaken | (s.pending.Total() + 1))
	s.setViewer(v)
}

func (s *Session) setViewer(v Viewer) {
	s.mu.Lock()
	s.mu.viewer = v
	s.mu.live = func(p []byte) { _, _ = v.Write(p) }
	over := s.mu.over
	s.mu.Unlock()
	if over {
		s.reportEnd(v)
	}
}

// Mute stops displaying output.
func (s *Session) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.live = nil
}

// Acquire waits for the exclusive right to interact with the session. The caller must call release.
func (s *Session) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case <-s.interaction:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	s.mu.lastUsed = time.Now()
	s.mu.Unlock()
	return func() { s.interaction <- struct{}{} }, nil
}

// Collect waits until the session ends, until receives a value, or [Store.StopWaiting] is called, and returns the output that was not
// returned before. call is the ID of the call that receives it. ended says that there is no more output. If the session ends later,
// the rest is stored for the next call. If ctx ends first, Collect returns its cause and no output.
func (s *Session) Collect(ctx context.Context, call string, until <-chan time.Time) (o output.Output, ended bool, err error) {
	select {
	case <-s.exited:
	case <-until:
	case <-s.stopWaiting:
	case <-ctx.Done():
		return output.Output{}, false, context.Cause(ctx)
	}
	if ended = s.Exited(); ended {
		s.awaitOutput()
	}
	return s.drain(call, ended), ended, nil
}

// drain takes the stored output. An incomplete character at its end is kept, unless the session has ended.
func (s *Session) drain(call string, ended bool) output.Output {
	if !ended {
		return output.Output(s.pending.Take(call, output.Partial))
	}
	o := output.Output(s.pending.Take(call, nil))
	s.pending.SetMark(s.pending.Mark() | endTaken) // set last, so that the mark implies that the output was taken
	return o
}

// ErrNotReading is returned by Input if the terminal's buffer is full because the program does not read it.
var ErrNotReading = errors.New("the program does not read its input")

// Input types text into the terminal. In a session without a terminal, the only valid text is Ctrl-C, which interrupts it.
func (s *Session) Input(ctx context.Context, text string) error {
	if !s.TTY {
		if text != "\x03" {
			return ErrClosedStdin
		}
		err := s.process.Signal(syscall.SIGINT)
		if errors.Is(err, os.ErrProcessDone) {
			return nil // its output can still be collected
		}
		return err
	}
	select {
	case <-s.typing:
	default:
		return ErrNotReading // previous input is still being typed
	}
	return s.write(ctx, text)
}

// write writes text to the terminal. The caller has taken the token of typing, which write returns.
func (s *Session) write(ctx context.Context, text string) error {
	done := make(chan error, 1)
	// Owned by the session: the write may block, and ends at the latest when release closes the terminal.
	go func() {
		_, err := io.WriteString(s.in, text)
		s.typing <- struct{}{}
		done <- err
	}()
	t := time.NewTimer(inputTime)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-s.exited:
		return nil
	case <-t.C:
		return ErrNotReading
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop kills the session with its process tree, and waits for its end until ctx ends.
func (s *Session) Stop(ctx context.Context) error {
	if !s.Exited() {
		if err := s.process.Kill(); err != nil {
			return err
		}
	}
	select {
	case <-s.exited:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
