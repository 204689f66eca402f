// Package session keeps commands that run longer than the call that started them, and their output until somebody asks
// for it.
//
// It owns: the numbers of sessions, output that was not returned yet, waiting for more of it, the bound on sessions and
// which one goes when it is reached, and what is remembered of those that have ended. It must not know: how a process is
// started or confined, what a model reads, tools and calls.
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
	// RecordBytes is the output that waits to be returned; beyond it the middle is dropped and counted.
	RecordBytes = 1 << 20
	// tailBytes is what is remembered of the end of the output after a session is over.
	tailBytes = 2 << 10
	// outputGrace is how long the end of the output is waited for after the process has ended. What comes later is some
	// other process's, which holds the pipe.
	outputGrace = 50 * time.Millisecond
	// outputRounds bounds how often that is done again while output arrives: another process may write for ever.
	outputRounds = 20
	// inputTime is how long typing may take. A terminal holds some kilobytes that nobody has read.
	inputTime = 5 * time.Second
)

// ErrClosedStdin is returned by Write for a session without a terminal.
var ErrClosedStdin = errors.New("stdin is closed for this session; rerun exec_command with tty=true to keep stdin open")

// Process is what a session needs of a program that was started; *process.Cmd has it.
type Process interface {
	Done() <-chan struct{}
	Exit() (process.Exit, bool)
	Signal(sig os.Signal) error
	Kill() error
	Wait() error
	// Release lets go of what is kept for a later process of the plugin. It is called once, after all others.
	Release() error
}

// Info is what is known of a session from the start, also by the process that takes it over.
type Info struct {
	Command   string `json:"command"` // as the model wrote it
	Cwd       string `json:"cwd"`
	TTY       bool   `json:"tty,omitempty"`
	Escalated bool   `json:"escalated,omitempty"` // runs outside the sandbox
	Sandboxed bool   `json:"sandboxed,omitempty"`
}

// Program is one that runs.
type Program struct {
	Info
	Process Process
	In      io.Writer // of the terminal; nil: none
	Out     io.ReadCloser
	// Record holds its output; it has RecordBytes. nil: one that ends with this process.
	Record *record.Record
	// Live gets output as it appears, until [Session.Open] or [Session.Mute].
	Live func([]byte)

	onStart func(*Session) // called before anything of the program is waited for; nil: nothing
}

// Viewer is told about a session that outlives its call.
type Viewer interface {
	Write(p []byte) (int, error)
	Exited(code int)
	Denied(code int)
	Lost()
}

// Session is one command.
type Session struct {
	Info
	ID int

	process     Process
	in          io.Writer // of the terminal
	out         io.ReadCloser
	pending     *record.Record  // output that was not returned yet
	stopWaiting <-chan struct{} // closed when waiting for more of it should end

	interaction chan struct{} // holds a token while nobody interacts with the session
	typing      chan struct{} // holds a token while nothing is being typed
	exited      chan struct{} // closed when the process has ended
	closed      chan struct{} // closed when its output has ended, too
	work        sync.WaitGroup
	release     sync.Once // of what it holds

	received atomic.Int64 // bytes of output so far

	mu struct {
		sync.Mutex
		tail     *output.Buffer
		live     func([]byte) // shows output as it appears
		viewer   Viewer
		over     bool // the end was told to the viewer, or will be by whoever sets one
		code     int
		known    bool // the code is
		lastUsed time.Time
	}
}

// newSession takes over a program that runs.
func newSession(id int, p Program, hurry <-chan struct{}) (*Session, error) {
	s := &Session{
		ID: id, Info: p.Info, process: p.Process, in: p.In, out: p.Out, pending: p.Record, stopWaiting: hurry,
		interaction: make(chan struct{}, 1), typing: make(chan struct{}, 1), exited: make(chan struct{}), closed: make(chan struct{}),
	}
	if s.pending == nil {
		var err error
		if s.pending, err = record.New(nil, RecordBytes); err != nil {
			return nil, err
		}
	}
	s.interaction <- struct{}{}
	s.typing <- struct{}{}
	s.mu.tail, s.mu.live = output.NewTail(tailBytes), p.Live
	s.mu.tail.Absorb(output.Output(s.pending.Peek())) // of one that was taken over
	s.mu.lastUsed = time.Now()
	if p.onStart != nil {
		p.onStart(s)
	}
	s.work.Go(s.read)
	s.work.Go(s.watch)
	return s, nil
}

// read takes the output until its end. After the process has ended that may take as long as others hold the pipe; who
// forgets the session closes it.
func (s *Session) read() {
	defer close(s.closed)
	for {
		piece, err := s.pending.ReadPiece(s.out)
		if len(piece) > 0 {
			s.mu.Lock()
			s.mu.tail.Write(piece)
			live := s.mu.live
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

// watch waits for the end of the process and then of its output, and releases both.
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
	if viewer != nil {
		s.reportEnd(viewer)
	}
	<-s.closed
	_ = s.process.Wait() // how it ended is known
}

func (s *Session) awaitOutput() {
	// Output that is still arriving, or has arrived and is not read yet, is waited for again: what the process wrote is not lost on a
	// busy machine.
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

// Code is the exit code; false while the session runs, or when nobody can tell.
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

// Denied reports whether the session looks as if a sandbox had stopped it.
func (s *Session) Denied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.known && s.Sandboxed && looksDenied(s.mu.code, s.mu.tail.Bytes())
}

// The mark of a session's record says what the model and the host know of it: endTaken, that its end was returned; and how
// many bytes of output there were when it was opened, plus one, 0: it was not.
const (
	endTaken   = 1 << 62
	openedBits = endTaken - 1
)

// Open gives the session a viewer that is told about all that happens from now on, instead of live.
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

// Mute ends showing output.
func (s *Session) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.live = nil
}

// Acquire waits for the right to interact with the session, which only one caller has at a time, and returns how to give it
// back.
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

// Collect waits until the session has ended, until is over, the plugin makes room for another process, or ctx ends, and
// returns the output that was not returned before, to the call of this name. ended says that this is the last of it; a
// session that ends right after keeps what it still has for the next one who asks. So does one whose ctx ends first: then
// nothing is taken.
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

// drain empties what waits. While more may come, the beginning of a character at the end stays.
func (s *Session) drain(call string, ended bool) output.Output {
	if !ended {
		return output.Output(s.pending.Take(call, output.Partial))
	}
	o := output.Output(s.pending.Take(call, nil))
	s.pending.SetMark(s.pending.Mark() | endTaken) // after that: who finds the mark finds the output taken
	return o
}

// ErrNotReading is returned by Input when the program lets what is typed pile up until the terminal takes no more.
var ErrNotReading = errors.New("the program does not read its input")

// Input types text into the terminal. For a session without one the only thing that can be typed is Ctrl-C.
func (s *Session) Input(ctx context.Context, text string) error {
	if !s.TTY {
		if text != "\x03" {
			return ErrClosedStdin
		}
		err := s.process.Signal(syscall.SIGINT)
		if errors.Is(err, os.ErrProcessDone) {
			return nil // what it left is collected
		}
		return err
	}
	select {
	case <-s.typing:
	default:
		return ErrNotReading // what was typed before still waits
	}
	done := make(chan error, 1)
	// Owned by the session: writing can block, and ends at the latest when the terminal is closed, which is when the
	// session is forgotten.
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

// Stop ends the session and all that it started, and waits for that until ctx ends.
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
