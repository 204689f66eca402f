// Package child runs child threads: threads that work for another thread, such as the reviewer of a change, the reviewer of a call, or
// the model that judges for a hook.
//
// It owns: the life of a child thread (open, ask, follow, interrupt, close), its bounds, and what the end of its turn means to the
// thread it works for. It must not know: how threads are constructed, how a role is enforced, what is asked and who reads the answer.
//
// Start with [Open] and [Child.Ask].
package child

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Role says how a thread differs from one that works for its user. The zero value is a user's thread.
type Role struct {
	Unattended    bool   // no person answers for it: what the policy would ask about is refused, and it runs no hooks
	ReadOnly      bool   // calls that do more than read are refused
	NoTools       bool   // its model has no tools
	NoHostedTools bool   // its model has no tools that its vendor runs
	Approval      string // approval policy of an unattended thread
	Sandbox       string // sandbox mode; empty: the thread's setting
	CacheKey      string // prompt cache key of its requests; empty: its own
}

// Bounds limit a child over its whole life. A zero field means no limit.
type Bounds struct {
	Turns  int           // how many questions it is asked
	Tokens int64         // how many tokens its turns use, as reported by its provider
	Time   time.Duration // how long its turns take in total; the time between them is not counted
}

// Spec describes a child. Name, Source and Model are required.
type Spec struct {
	Name         string // subject of error messages: "the reviewer"
	Source       string // the thread's source in its first event
	Model        event.Selection
	Instructions string // system prompt
	Role         Role
	Bounds       Bounds
	// Follow receives every event that the child publishes during a question, in order, from the goroutine that called Ask. Usage
	// is reported with Active 0: it says nothing about the parent's context. nil: events are not needed.
	Follow func(ctx context.Context, b event.Body)
}

// Opener starts the thread of a child of parent. It counts its usage with parent's meter. end ends the thread and returns when nothing
// of it is left; it is called once.
type Opener func(ctx context.Context, parent *thread.Thread, s Spec) (t *thread.Thread, end func(), err error)

// Child is a thread that works for another one. It is safe for concurrent use, but answers one question at a time.
type Child struct {
	spec   Spec
	thread *thread.Thread
	close  func()
	mu     struct {
		sync.Mutex
		closed bool
		stop   context.CancelCauseFunc // ends the current question; nil: there is none
		turns  int
		tokens int64
		spent  time.Duration
	}
}

// Open starts a child of parent. The caller closes it.
func Open(ctx context.Context, open Opener, parent *thread.Thread, s Spec) (*Child, error) {
	t, end, err := open(ctx, parent, s)
	if err != nil {
		return nil, err
	}
	return &Child{spec: s, thread: t, close: sync.OnceFunc(end)}, nil
}

// ID identifies the child's thread.
func (c *Child) ID() event.ThreadID { return c.thread.ID() }

// Question is what a child is asked in one turn.
type Question struct {
	Text   string
	Schema []byte // JSON Schema of the answer; nil: free text
}

// Ask asks the child in one turn and returns the last message of its answer. The turn has ended when Ask returns. An answer that is
// complete when an interrupt or a bound takes effect is returned; if ctx has ended, the error is its cause.
//
// Errors: [ErrBusy], [thread.ErrClosed], a [*BoundError], a [*TurnError], a [*StoppedError], or the cause passed to Interrupt.
func (c *Child) Ask(ctx context.Context, q Question) (string, error) {
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	left, err := c.begin(stop)
	if err != nil {
		return "", err
	}
	began := time.Now()
	defer func() { c.end(time.Since(began)) }()
	if c.spec.Bounds.Time > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeoutCause(run, left, c.exceeded(BoundTime, c.spec.Bounds.Time))
		defer cancel()
	}
	end, err := c.turn(run, q)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err == nil && end.Status == event.TurnCompleted && end.Error == nil:
		return end.LastMessage, nil
	case run.Err() != nil:
		return "", context.Cause(run)
	case err != nil:
		return "", err
	case end.Error != nil:
		return "", &TurnError{*end.Error}
	}
	return "", &StoppedError{c.spec.Name, end.Reason}
}

// turn runs one turn and follows it to its end. The end of run interrupts the turn, whose end is awaited nevertheless.
func (c *Child) turn(run context.Context, q Question) (event.TurnEnded, error) {
	keep := context.WithoutCancel(run)
	events, err := c.thread.Subscribe(run, thread.Lossless)
	if err != nil {
		return event.TurnEnded{}, err
	}
	defer events.Close()
	asked, err := c.thread.Submit(run, thread.Submission{
		Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: q.Text}}}, OutputSchema: q.Schema,
	})
	if err != nil {
		return event.TurnEnded{}, err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(run, func() {
		defer close(interrupted)
		_ = c.thread.Interrupt(keep, context.Cause(run)) // fails only if the turn or the thread has ended
	})
	defer func() {
		events.Close()
		if !stop() {
			<-interrupted // a late interrupt must not reach the next turn
		}
	}()
	for {
		e, err := events.Next(keep)
		if err != nil {
			return event.TurnEnded{}, fmt.Errorf("follow %s: %w", c.spec.Name, err)
		}
		body := e.Body
		if used, ok := body.(event.UsageReported); ok {
			c.count(usage.TokensOf(used.Usage).Total)
			used.Active = 0
			body = used
		}
		if c.spec.Follow != nil {
			c.spec.Follow(keep, body)
		}
		if end, ok := body.(event.TurnEnded); ok && e.Turn == asked.Turn {
			return end, nil
		}
	}
}

// begin admits a question and returns what is left of the time. If nothing is left, the question's context has ended already.
func (c *Child) begin(stop context.CancelCauseFunc) (left time.Duration, err error) {
	b := c.spec.Bounds
	c.mu.Lock()
	defer c.mu.Unlock()
	left = b.Time - c.mu.spent
	switch {
	case c.mu.closed:
		return 0, thread.ErrClosed
	case c.mu.stop != nil:
		return 0, ErrBusy
	case b.Turns > 0 && c.mu.turns >= b.Turns:
		return 0, c.exceeded(BoundTurns, b.Turns)
	case b.Tokens > 0 && c.mu.tokens >= b.Tokens:
		return 0, c.exceeded(BoundTokens, b.Tokens)
	}
	c.mu.turns++
	c.mu.stop = stop
	return left, nil
}

func (c *Child) end(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stop = nil
	c.mu.spent += took
}

// count adds tokens, and interrupts the turn that reaches the limit.
func (c *Child) count(tokens int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.tokens += tokens
	if most := c.spec.Bounds.Tokens; most > 0 && c.mu.tokens >= most && c.mu.stop != nil {
		c.mu.stop(c.exceeded(BoundTokens, most))
	}
}

// Interrupt ends the current question: its Ask returns cause when the turn has ended. Without a question it returns [thread.ErrIdle].
func (c *Child) Interrupt(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.stop == nil {
		return thread.ErrIdle
	}
	c.mu.stop(cause)
	return nil
}

// Close ends the thread, with the current question, and returns when nothing of it is left. Idempotent.
func (c *Child) Close() {
	c.mu.Lock()
	c.mu.closed = true
	if c.mu.stop != nil {
		c.mu.stop(thread.ErrClosed)
	}
	c.mu.Unlock()
	c.close()
}

// ErrNoModel is returned, wrapped, by a caller of [Open] that finds no usable model for the child.
var ErrNoModel = errors.New("there is no model to ask")

// ErrBusy is returned by Ask while another question is being answered.
var ErrBusy = errors.New("another question is being answered")

// TurnError is the failure of a child's turn.
type TurnError struct{ Problem event.Problem }

func (e *TurnError) Error() string { return e.Problem.Message }

// StoppedError says that a turn was interrupted by something other than its parent.
type StoppedError struct{ Name, Reason string }

func (e *StoppedError) Error() string { return fmt.Sprintf("%s was stopped: %s", e.Name, e.Reason) }

// Bound names one of the [Bounds].
type Bound string

// The bounds.
const (
	BoundTurns  Bound = "turns"
	BoundTokens Bound = "tokens"
	BoundTime   Bound = "time"
)

// BoundError says that a child has reached one of its bounds.
type BoundError struct {
	Name  string
	Bound Bound
	Limit string
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("%s has reached its limit on %s, which is %s", e.Name, e.Bound, e.Limit)
}

func (c *Child) exceeded(b Bound, limit any) error {
	return &BoundError{c.spec.Name, b, fmt.Sprint(limit)}
}
