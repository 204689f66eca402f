package orchestrate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Cell is code of a thread that outlives the call that started it. The tools that the code calls are called in the name of the call
// that observes the cell: with its settings and its pipeline, and nested in it. Without an observer, a call waits for the next one.
// A call that has begun does not end with its observer, but with the cell, or some time after the turn; see [Cell.EndTurn]. If the user
// aborts at its question, the turn ends as soon as a call observes the cell.
type Cell struct {
	gate   Gate // of the calls
	ctx    context.Context
	cancel context.CancelCauseFunc
	mu     struct {
		sync.Mutex
		observer *Live         // nil: nobody observes the cell
		observed chan struct{} // closed when there is an observer
		turn     context.Context
		endTurn  context.CancelCauseFunc
		calls    map[*Future]bool // that run
		aborted  bool             // the user has aborted a question of a call while nobody observed the cell
	}
}

// NewCell returns a cell without an observer.
func NewCell() *Cell {
	c := &Cell{}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.mu.observed, c.mu.calls = make(chan struct{}), map[*Future]bool{}
	c.mu.turn, c.mu.endTurn = context.WithCancelCause(c.ctx)
	return c
}

// ErrObserved says that another call observes the cell.
var ErrObserved = errors.New("another call observes the cell")

// Observe makes the call the cell's observer until it calls the returned function or ends.
func (c *HostCall) Observe(cell *Cell) (release func(), err error) {
	cell.mu.Lock()
	defer cell.mu.Unlock()
	if cell.mu.observer != nil {
		return nil, ErrObserved
	}
	cell.mu.observer = c.live
	close(cell.mu.observed)
	if cell.mu.aborted {
		cell.mu.aborted = false
		c.live.abortTurn()
	}
	return sync.OnceFunc(func() {
		cell.mu.Lock()
		defer cell.mu.Unlock()
		cell.mu.observer, cell.mu.observed = nil, make(chan struct{})
	}), nil
}

// CallTool calls a tool of the thread for the cell's code. It waits for an observer, and returns with the cause of the end of ctx, of
// the turn or of the cell.
func (c *Cell) CallTool(ctx context.Context, namespace, name string, in contract.Input) (*contract.Result, error) {
	for {
		c.mu.Lock()
		observer, observed, turn := c.mu.observer, c.mu.observed, c.mu.turn
		if observer == nil {
			c.mu.Unlock()
			select {
			case <-observed:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-c.ctx.Done():
				return nil, context.Cause(c.ctx)
			}
		}
		if turn.Err() != nil {
			c.mu.Unlock()
			return nil, context.Cause(turn)
		}
		call, err := observer.nest(namespace, name, in)
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(turn, func() { cancel(context.Cause(turn)) })
		f, run := observer.Pipeline.enter(&c.gate, call)
		c.mu.calls[f] = true
		c.mu.Unlock()
		run(ctx)
		answer := f.Wait()
		stop()
		cancel(nil)
		c.mu.Lock()
		delete(c.mu.calls, f)
		if now := c.mu.observer; now != nil {
			observer = now
		} else if answer.Abort {
			c.mu.aborted = true
		}
		c.mu.Unlock()
		return observer.answered(answer)
	}
}

// EndTurn waits for the calls that run, cancels after grace those that still do, and waits for them, so that nothing of the cell acts
// after the turn. Calls are possible again when a call of a later turn observes the cell.
func (c *Cell) EndTurn(grace time.Duration) {
	running := c.running()
	if len(running) == 0 {
		return
	}
	c.mu.Lock()
	endTurn := c.mu.endTurn
	c.mu.Unlock()
	timer := time.AfterFunc(grace, func() { endTurn(ErrTurnOver) })
	defer timer.Stop()
	for len(running) > 0 { // the code may make more calls before the grace is over
		for _, f := range running {
			f.Wait()
		}
		running = c.running()
	}
	endTurn(ErrTurnOver)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.aborted = false
	c.mu.turn, c.mu.endTurn = context.WithCancelCause(c.ctx)
}

// ErrTurnOver says that a call of a cell was stopped, or not begun, because its turn has ended.
var ErrTurnOver = errors.New("the turn has ended")

// End stops the calls of the cell and waits for them. Later calls fail with the cause.
func (c *Cell) End(cause error) {
	c.cancel(cause)
	for running := c.running(); len(running) > 0; running = c.running() {
		for _, f := range running {
			f.Wait()
		}
	}
}

func (c *Cell) running() (out []*Future) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.mu.calls {
		select {
		case a := <-f.done: // it has its answer, which its caller is about to take
			f.done <- a
		default:
			out = append(out, f)
		}
	}
	return out
}
