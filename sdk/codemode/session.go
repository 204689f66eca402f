package codemode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/internal/stack"
)

// The default limits of a script.
const (
	DefaultMemory = 128 << 20
	DefaultCPU    = 10 * time.Second
	DefaultWall   = 60 * time.Second
)

// maxCalls is the number of calls of a script that can be unanswered at the same time.
const maxCalls = 1024

// reservedMemory is the memory that an engine needs for its own globals and errors.
const reservedMemory = 4 << 20

// Limits are the limits of a script. Zero values are the defaults.
type Limits struct {
	Memory int64         // bytes, at least 4 MiB
	CPU    time.Duration // processor time; it stands still while the script waits
	Wall   time.Duration // all time, including calls
}

func (l Limits) withDefaults() Limits {
	if l.Memory <= 0 {
		l.Memory = DefaultMemory
	}
	if l.CPU <= 0 {
		l.CPU = DefaultCPU
	}
	if l.Wall <= 0 {
		l.Wall = DefaultWall
	}
	l.Memory = max(l.Memory, reservedMemory)
	return l
}

// Script is what a session runs.
type Script struct {
	Code       string
	Form       frame.Form // empty: frame.Function
	Namespaces []frame.Namespace
	Limits     Limits // of [Start]; a [Process] has its own
}

// Owner answers a script.
type Owner interface {
	// Call handles a call and returns JSON, or nil for undefined. Its error becomes an exception in the script. Calls run
	// concurrently; ctx ends with the session, and Call must return soon after it.
	Call(ctx context.Context, c frame.Call) (json.RawMessage, error)
	// Emit receives values that preludes send, and Log the lines of the console, one at a time and in the script's order. The
	// script's further messages wait until they return.
	Emit(e frame.Emit)
	Log(line string)
}

// Session is a script that runs in a process of its own.
type Session struct {
	owner   Owner
	cancel  context.CancelFunc
	ended   chan struct{}
	done    frame.Done // valid when ended is closed
	calls   sync.WaitGroup
	slots   chan struct{}
	process *Process

	mu sync.Mutex // of the process's input
}

// Start starts command, which must serve package child's protocol, and lets it run the script. The session lasts until the script
// has ended, its time is used up or ctx has ended. A process that can't be started is a session that has failed.
func Start(ctx context.Context, command []string, script Script, owner Owner) *Session {
	return (&Process{command: command, limits: script.Limits.withDefaults()}).Run(ctx, script, owner)
}

// Run runs a script in the process, which must not have run one before, within the limits of [Prepare]. See [Start]. If the process is
// gone, the script runs in another one.
func (p *Process) Run(ctx context.Context, script Script, owner Owner) *Session {
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{owner: owner, cancel: cancel, ended: make(chan struct{}), slots: make(chan struct{}, maxCalls)}
	if script.Form == "" {
		script.Form = frame.Function
	}
	go s.run(ctx, p, script) // owned by the session: ends with ended
	return s
}

// Ended is closed when the script has ended and its process and its calls are gone.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Stop ends the session. It returns when it has ended.
func (s *Session) Stop() {
	s.cancel()
	<-s.ended
}

// Wait returns how the script has ended.
func (s *Session) Wait() frame.Done {
	<-s.ended
	return s.done
}

func (s *Session) run(ctx context.Context, p *Process, script Script) {
	defer close(s.ended)
	defer s.calls.Wait()
	defer s.cancel()
	first, err := frame.Encode(frame.ToChild{Start: &frame.Start{Code: script.Code, Form: script.Form, Namespaces: script.Namespaces}})
	// The child ends itself shortly before; this is for one that can't.
	limited, stop := context.WithTimeout(ctx, p.limits.Wall+frame.Grace)
	defer stop()
	for again := true; ; again = false {
		p.begin()
		defer p.End()
		switch {
		case err != nil:
			s.fail("the script can't be sent: "+err.Error(), frame.Thrown)
			return
		case ctx.Err() != nil:
			s.fail("the execution was cancelled", frame.Cancelled)
			return
		case p.err != nil:
			s.fail("the process for the script can't be started: "+p.err.Error(), frame.Crashed)
			return
		}
		s.process = p
		defer context.AfterFunc(limited, p.kill)()
		if s.write(first) == nil || !again {
			break
		}
		p = &Process{command: p.command, limits: p.limits} // it was gone, and has not run the script
	}
	err = s.serve(ctx, p.out)
	p.End() // it has nothing left to do
	switch {
	case err == nil:
	case ctx.Err() != nil:
		s.fail("the execution was cancelled", frame.Cancelled)
	case errors.Is(err, errDeadline):
		s.fail("Execution timed out after "+p.limits.Wall.String(), frame.Timeout)
	default:
		text := "the script's process ended unexpectedly"
		if line := p.stderr.line(); line != "" {
			text += ": " + line
		}
		if size, ok := errors.AsType[*frame.SizeError](err); ok {
			text = "the script's process was ended: " + size.Error()
		}
		s.fail(text, frame.Crashed)
	}
}

// errDeadline is the end of a child that has not ended in time.
var errDeadline = errors.New("deadline")

func (s *Session) fail(message string, cause frame.Cause) {
	s.done = frame.Done{Error: &frame.Error{Message: message, Cause: cause}}
}

// serve handles the child's messages until the last one.
func (s *Session) serve(ctx context.Context, out io.Reader) error {
	deadline := time.Now().Add(s.process.limits.Wall + frame.Grace)
	in := bufio.NewReader(out)
	for {
		m, err := frame.Read[frame.FromChild](in)
		switch {
		case err != nil && !time.Now().Before(deadline):
			return errDeadline
		case err != nil:
			return err
		case m.Done != nil:
			s.done = *m.Done
			if e := s.done.Error; e != nil && e.Message == "" {
				e.Message = "the script failed"
			}
			return nil
		case m.Call != nil:
			select {
			case s.slots <- struct{}{}:
				s.calls.Go(func() {
					stack.Grow()
					defer func() { <-s.slots }()
					s.call(ctx, *m.Call)
				})
			default:
				s.reply(frame.Reply{ID: m.Call.ID, Error: new(fmt.Sprintf("more than %d calls are unanswered", maxCalls))})
			}
		case m.Emit != nil:
			s.owner.Emit(*m.Emit)
		case m.Log != nil:
			s.owner.Log(*m.Log)
		}
	}
}

func (s *Session) call(ctx context.Context, c frame.Call) {
	value, err := s.owner.Call(ctx, c)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.reply(frame.Reply{ID: c.ID, Error: new(err.Error())})
		return
	}
	s.reply(frame.Reply{ID: c.ID, Value: value})
}

func (s *Session) reply(r frame.Reply) {
	b, err := frame.Encode(frame.ToChild{Reply: &r})
	if err != nil {
		b, err = frame.Encode(frame.ToChild{Reply: &frame.Reply{ID: r.ID, Error: new("the result can't be sent: " + err.Error())}})
	}
	if err == nil {
		_ = s.write(b)
	}
}

// write writes a frame. The error says that the child is gone, which is also noticed where its messages are read.
func (s *Session) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.process.in.Write(b)
	return err
}
