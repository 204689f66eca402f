package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// relay is a thread that another process runs, reached through its run socket.
type relay struct {
	hub    *Hub
	id     event.ThreadID
	path   string // of the socket
	facade *Thread
	// watch is the connection whose subscription tells the thread's state. Requests that are answered soon use it as well.
	watch *threadsocket.Client
	over  chan struct{} // closed when that connection has ended

	mu struct {
		sync.Mutex
		work *threadsocket.Client // for requests that may wait for the end of a turn; nil: not connected yet
	}
}

// subscribe subscribes to the events that tell the thread's state, and returns the state before them.
func (r *relay) subscribe(ctx context.Context) (initial Status, err error) {
	initial = Status{State: Idle, Remote: true}
	r.facade = newThread(r.id, event.ThreadStarted{}, r)
	s, err := r.hub.stored()
	if err != nil {
		return initial, err
	}
	info, err := s.Thread(ctx, string(r.id))
	if err == nil {
		r.facade.started, err = r.hub.started(ctx, s, r.id)
	}
	if err != nil {
		// It has just started, or it is ephemeral: its first event is still to come, or only its owner has it.
		if _, err := r.watch.Subscribe(ctx, threadsocket.SubscribeParams{}); err != nil {
			return initial, err
		}
		e, err := r.watch.Next(ctx)
		if err != nil {
			return initial, err
		}
		r.facade.started, _ = e.Body.(event.ThreadStarted) // always, except for the log of a later version
		return initial, nil
	}
	// Replay what has happened since the information was read; of a running turn all of it, because its questions may be pending.
	after := info.Seq
	switch info.Status {
	case store.StatusRunning:
		initial.State = Active
		turns, err := s.Turns(ctx, r.id)
		if err != nil {
			return initial, err
		}
		if len(turns) > 0 {
			last := turns[len(turns)-1]
			initial.Turn, after = last.ID, last.FirstSeq-1
		}
	case string(event.TurnFailed):
		initial.State = Failed
	}
	_, err = r.watch.Subscribe(ctx, threadsocket.SubscribeParams{After: after})
	return initial, err
}

// gone says that no process runs a thread.
func gone(id event.ThreadID) error {
	return &Error{Code: Closed, Message: fmt.Sprintf("no process runs thread %s", id), Next: "resume it"}
}

func (r *relay) dial(ctx context.Context) (*threadsocket.Client, error) {
	c, err := threadsocket.Dial(ctx, r.path)
	return c, r.asked(err)
}

// asked converts the result of a request: if the process has ended, the error says so.
func (r *relay) asked(err error) error {
	if errors.Is(err, threadsocket.ErrGone) {
		return &Error{Code: Closed, Message: fmt.Sprintf("the process that ran thread %s has ended", r.id), Next: "resume the thread"}
	}
	return err
}

// follows follows the thread's state until the connection ends.
func (r *relay) follows() {
	defer r.forget()
	for {
		e, err := r.watch.Next(r.hub.life)
		if err != nil {
			return
		}
		r.hub.monitor.apply(e, true)
	}
}

// forget ends the relay. Later requests to the thread find out who runs it then.
func (r *relay) forget() {
	r.disconnect()
	h := r.hub
	h.others.forget(r)
	close(r.over)
	r.facade.end()
	h.monitor.ended(r.id)
}

func (r *relay) disconnect() {
	_ = r.watch.Close() // nothing is lost: the thread continues
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.work != nil {
		_ = r.mu.work.Close() // as above
	}
}

// close ends the relay and waits.
func (r *relay) close() {
	r.disconnect()
	<-r.over
}

// worker returns the connection for requests that may wait for the end of a turn: the server reads only so many of them at once, so they
// must not be in the way of others.
func (r *relay) worker(ctx context.Context) (*threadsocket.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.over:
		return nil, gone(r.id)
	default:
	}
	if r.mu.work == nil {
		c, err := r.dial(ctx)
		if err != nil {
			return nil, err
		}
		r.mu.work = c
	}
	return r.mu.work, nil
}

func (r *relay) remote() bool    { return true }
func (r *relay) ephemeral() bool { return false }

func (r *relay) submit(ctx context.Context, s Submission) (Accepted, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return Accepted{}, err
	}
	text, parts := s.Input.wire()
	a, err := c.Start(ctx, threadsocket.StartParams{
		Text: text, Parts: parts, OutputSchema: s.OutputSchema, Settings: wireSettings(s.Settings), AdditionalContext: s.Input.wireContext(), ClientID: s.ClientID,
	})
	if errors.Is(err, threadsocket.ErrGone) && s.Settings != (event.Settings{}) {
		err = hint.With(fmt.Errorf("%w: the change was waiting for the running turn, whose process has ended", err), "try again")
	}
	return Accepted{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, r.asked(err)
}

func (r *relay) steer(ctx context.Context, into event.TurnID, in Input) (Accepted, error) {
	text, parts := in.wire()
	a, err := r.watch.Steer(ctx, threadsocket.SteerParams{
		ExpectedTurn: into, Text: text, Parts: parts, AdditionalContext: in.wireContext(), ClientID: in.ClientID,
	})
	return Accepted{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, r.asked(err)
}

func (r *relay) interrupt(ctx context.Context, turn event.TurnID) error {
	return r.asked(r.watch.Interrupt(ctx, threadsocket.InterruptParams{Turn: turn, Wait: true}))
}

func (r *relay) answer(ctx context.Context, question string, a Answer) error {
	return r.asked(r.watch.Answer(ctx, threadsocket.AnswerParams{ID: question, Choice: a.Choice, Data: a.Data}))
}

// attend attends on a connection of its own, whose events no one needs.
func (r *relay) attend(ctx context.Context) (leave func(), err error) {
	c, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Subscribe(ctx, threadsocket.SubscribeParams{After: FromNow, Attend: true}); err != nil {
		return nil, errors.Join(r.asked(err), c.Close())
	}
	var draining sync.WaitGroup
	draining.Go(func() { // ends with the connection, which leave or the other process closes
		for {
			if _, err := c.Next(context.WithoutCancel(ctx)); err != nil {
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		_ = c.Close() // nothing is lost
		draining.Wait()
	}), nil
}

func (r *relay) settings(ctx context.Context) (event.Settings, error) {
	s, err := r.watch.Settings(ctx)
	return event.Settings{Model: s.Model, Cwd: s.Cwd, Reasoning: s.Effort, Approval: s.Approval, Sandbox: s.Sandbox}, r.asked(err)
}

func wireSettings(s event.Settings) threadsocket.Settings {
	return threadsocket.Settings{Model: s.Model, Cwd: s.Cwd, Effort: s.Reasoning, Approval: s.Approval, Sandbox: s.Sandbox}
}

func (r *relay) configure(ctx context.Context, change event.Settings) error {
	c, err := r.worker(ctx)
	if err != nil {
		return err
	}
	return r.asked(c.Configure(ctx, wireSettings(change)))
}

func (r *relay) compact(ctx context.Context) (Accepted, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return Accepted{}, err
	}
	a, err := c.Compact(ctx)
	return Accepted{Turn: a.Turn, Steered: a.Steered}, r.asked(err)
}

func (r *relay) shell(ctx context.Context, command string, timeout time.Duration) (Accepted, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return Accepted{}, err
	}
	a, err := c.Shell(ctx, threadsocket.ShellParams{Command: command, TimeoutMS: timeout.Milliseconds()})
	return Accepted{Turn: a.Turn, Concurrent: a.Concurrent, Call: a.Call}, r.asked(err)
}

func (r *relay) review(ctx context.Context, target ReviewTarget) (Accepted, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return Accepted{}, err
	}
	a, err := c.Review(ctx, threadsocket.ReviewParams{Target: target})
	return Accepted{Turn: a.Turn}, r.asked(err)
}

func (r *relay) post(ctx context.Context, m event.Mail) (Posted, error) {
	p, err := r.watch.Mail(ctx, threadsocket.MailParams{
		Author: m.Author, Recipient: m.Recipient, Type: m.Type, Text: m.Text, TriggerTurn: m.TriggerTurn, ParentTurn: m.AuthorTurn,
	})
	return Posted{Item: p.Item, Turn: p.Turn, Began: p.Began}, r.asked(err)
}

func (r *relay) undo(ctx context.Context, p UndoParams) (UndoReport, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return UndoReport{}, err
	}
	report, err := c.Undo(ctx, p)
	return report, r.asked(err)
}

func (r *relay) stopSession(ctx context.Context, plugin, session string) error {
	return r.asked(r.watch.StopSession(ctx, threadsocket.StopParams{Plugin: plugin, Session: session}))
}

func (r *relay) plugins(ctx context.Context) ([]PluginStatus, error) {
	list, err := r.watch.Plugins(ctx)
	return list, r.asked(err)
}

func (r *relay) reload(ctx context.Context, plugin, path string) error {
	c, err := r.worker(ctx)
	if err != nil {
		return err
	}
	return r.asked(c.Reload(ctx, threadsocket.ReloadParams{Plugin: plugin, Path: path}))
}

func (r *relay) fork(ctx context.Context, f Fork) (event.ThreadID, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return "", err
	}
	fork, err := c.Fork(ctx, threadsocket.ForkParams{LastTurn: f.Through, BeforeTurn: f.Before, Name: f.Name})
	return fork.Thread, r.asked(err)
}

func (r *relay) revert(ctx context.Context, before string, turns int) (Reverted, error) {
	c, err := r.worker(ctx)
	if err != nil {
		return Reverted{}, err
	}
	var done threadsocket.RevertResult
	if before != "" {
		done, err = c.Revert(ctx, threadsocket.RevertParams{BeforeTurn: before})
	} else {
		done, err = c.Rollback(ctx, threadsocket.RollbackParams{Turns: turns})
	}
	return Reverted{Before: done.BeforeTurn, Turns: done.Turns, Usage: done.Usage}, r.asked(err)
}

func (r *relay) rename(ctx context.Context, name string) error {
	return r.asked(r.watch.Name(ctx, name))
}

func (r *relay) archive(ctx context.Context, archive bool) error {
	return r.asked(r.watch.Archive(ctx, archive))
}

// relayEvents reads the events of a thread on a connection of its own. A reader that was too slow for the other process connects again
// after its last event.
type relayEvents struct {
	relay *relay
	last  uint64 // number of the last durable event that was returned, or before the first one; [FromNow]: none yet

	life   context.Context // ends with close
	cancel context.CancelFunc

	mu struct {
		sync.Mutex
		conn   *threadsocket.Client
		closed bool
	}
}

func (r *relay) follow(ctx context.Context, after uint64, _ Policy) (source, error) {
	e := &relayEvents{relay: r, last: after}
	e.life, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := e.subscribe(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *relayEvents) subscribe(ctx context.Context) error {
	c, err := e.relay.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Subscribe(ctx, threadsocket.SubscribeParams{After: e.last}); err != nil {
		return errors.Join(e.relay.asked(err), c.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return errors.Join(errClosed, c.Close())
	}
	e.mu.conn = c
	return nil
}

func (e *relayEvents) conn() *threadsocket.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.conn
}

func (e *relayEvents) next(ctx context.Context) (event.Event, error) {
	for {
		c := e.conn()
		ev, err := c.Next(ctx)
		switch {
		case errors.Is(err, threadsocket.ErrLagged):
			if err := errors.Join(c.Close(), e.subscribe(ctx)); err != nil {
				return event.Event{}, err
			}
			continue
		case err != nil:
			return event.Event{}, e.relay.asked(err)
		case ev.Seq == 0:
			return ev, nil
		case e.last != FromNow && ev.Seq <= e.last:
			continue // the caller has it
		}
		e.last = ev.Seq
		return ev, nil
	}
}

func (e *relayEvents) more() bool { return e.conn().More() }

func (e *relayEvents) position() uint64 { return e.last }

func (e *relayEvents) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return
	}
	e.mu.closed = true
	e.cancel()
	if e.mu.conn != nil {
		_ = e.mu.conn.Close() // nothing is lost
	}
}
