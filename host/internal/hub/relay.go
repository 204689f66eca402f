package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// relay is a thread that another process runs.
type relay struct {
	relayedGoal
	hub     *Hub
	id      event.ThreadID
	process *process
	facade  *Thread
	states  *relayEvents // that tell the thread's state
	// client is used for all requests.
	client *threadsocket.Client
	over   chan struct{} // closed when the states have ended
	leave  func()        // releases the process
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
		if err := r.observe(ctx, 0); err != nil {
			return initial, err
		}
		e, err := r.states.next(ctx)
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
	return initial, r.observe(ctx, after)
}

// observe subscribes to the events that tell the thread's state, after a number.
func (r *relay) observe(ctx context.Context, after uint64) error {
	r.states = &relayEvents{relay: r, only: threadsocket.OnlyStates, last: after}
	return r.states.subscribe(ctx)
}

// gone says that no process runs a thread.
func gone(id event.ThreadID) error {
	return &Error{Code: Closed, Message: fmt.Sprintf("no process runs thread %s", id), Next: "resume it"}
}

// asked converts the result of a request: if the process has ended, the error says so.
func (r *relay) asked(err error) error {
	if errors.Is(err, threadsocket.ErrGone) {
		return &Error{Code: Closed, Message: fmt.Sprintf("the process that ran thread %s has ended", r.id), Next: "resume the thread"}
	}
	return err
}

// follows follows the thread's state until the thread or the connection ends.
func (r *relay) follows() {
	defer r.forget()
	for {
		e, err := r.states.next(r.hub.life)
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
	if r.states != nil {
		r.states.close()
	}
	_ = r.client.Close() // nothing is lost: the thread continues
	r.leave()
}

// close ends the relay and waits.
func (r *relay) close() {
	r.disconnect()
	<-r.over
}

func (r *relay) remote() bool    { return true }
func (r *relay) ephemeral() bool { return r.facade.started.Ephemeral }

func (r *relay) submit(ctx context.Context, s Submission) (Accepted, error) {
	text, parts := s.Input.wire()
	a, err := r.client.Start(ctx, threadsocket.StartParams{
		Text: text, Parts: parts, OutputSchema: s.OutputSchema, Settings: wireSettings(s.Settings), AdditionalContext: s.Input.wireContext(), ClientID: s.ClientID,
		Continue: s.Continue,
	})
	if errors.Is(err, threadsocket.ErrGone) && s.Settings != (event.Settings{}) {
		err = hint.With(fmt.Errorf("%w: the change was waiting for the running turn, whose process has ended", err), "try again")
	}
	return Accepted{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, r.asked(err)
}

func (r *relay) steer(ctx context.Context, into event.TurnID, in Input) (Accepted, error) {
	text, parts := in.wire()
	a, err := r.client.Steer(ctx, threadsocket.SteerParams{
		ExpectedTurn: into, Text: text, Parts: parts, AdditionalContext: in.wireContext(), ClientID: in.ClientID,
		Continue: in.Continue, Adjust: in.adjust,
	})
	return Accepted{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, r.asked(err)
}

func (r *relay) interrupt(ctx context.Context, turn event.TurnID) error {
	return r.asked(r.client.Interrupt(ctx, threadsocket.InterruptParams{Turn: turn, Wait: true}))
}

func (r *relay) answer(ctx context.Context, question string, a Answer) error {
	return r.asked(r.client.Answer(ctx, threadsocket.AnswerParams{ID: question, Choice: a.Choice, Data: a.Data}))
}

// attend attends with a subscription of its own, whose events no one needs.
func (r *relay) attend(ctx context.Context, as presence) (leave func(), err error) {
	c, leave, err := r.subscription()
	if err != nil {
		return nil, err
	}
	if _, err := c.Subscribe(ctx, threadsocket.SubscribeParams{After: FromNow, Only: threadsocket.OnlyNone, Attend: as == asPerson, Tools: as == asClient}); err != nil {
		leave()
		return nil, r.asked(err)
	}
	return leave, nil
}

// subscription returns a client for a subscription, and a function that ends it.
func (r *relay) subscription() (c *threadsocket.Client, leave func(), err error) {
	release, ok := r.hub.others.retain(r.process)
	if !ok {
		return nil, nil, gone(r.id)
	}
	c = r.process.conn.Thread(r.id)
	return c, sync.OnceFunc(func() {
		_ = c.Close() // nothing is lost
		release()
	}), nil
}

func (r *relay) settings(ctx context.Context) (event.Settings, error) {
	s, err := r.client.Settings(ctx)
	return event.Settings{Model: s.Model, Cwd: s.Cwd, Reasoning: s.Effort, Approval: s.Approval, Sandbox: s.Sandbox}, r.asked(err)
}

func wireSettings(s event.Settings) threadsocket.Settings {
	return threadsocket.Settings{Model: s.Model, Cwd: s.Cwd, Effort: s.Reasoning, Approval: s.Approval, Sandbox: s.Sandbox}
}

func (r *relay) configure(ctx context.Context, change event.Settings) error {
	return r.asked(r.client.Configure(ctx, wireSettings(change)))
}

func (r *relay) compact(ctx context.Context) (Accepted, error) {
	a, err := r.client.Compact(ctx)
	return Accepted{Turn: a.Turn, Steered: a.Steered}, r.asked(err)
}

func (r *relay) shell(ctx context.Context, command string, timeout time.Duration) (Accepted, error) {
	a, err := r.client.Shell(ctx, threadsocket.ShellParams{Command: command, TimeoutMS: timeout.Milliseconds()})
	return Accepted{Turn: a.Turn, Concurrent: a.Concurrent, Call: a.Call}, r.asked(err)
}

func (r *relay) review(ctx context.Context, target ReviewTarget) (Accepted, error) {
	a, err := r.client.Review(ctx, threadsocket.ReviewParams{Target: target})
	return Accepted{Turn: a.Turn}, r.asked(err)
}

func (r *relay) post(ctx context.Context, m event.Mail) (Posted, error) {
	p, err := r.client.Mail(ctx, threadsocket.MailParams{
		Author: m.Author, Recipient: m.Recipient, Type: m.Type, Text: m.Text, TriggerTurn: m.TriggerTurn, ParentTurn: m.AuthorTurn,
	})
	return Posted{Item: p.Item, Turn: p.Turn, Began: p.Began}, r.asked(err)
}

func (r *relay) undo(ctx context.Context, p UndoParams) (UndoReport, error) {
	report, err := r.client.Undo(ctx, p)
	return report, r.asked(err)
}

func (r *relay) stopSession(ctx context.Context, plugin, session string) error {
	return r.asked(r.client.StopSession(ctx, threadsocket.StopParams{Plugin: plugin, Session: session}))
}

func (r *relay) plugins(ctx context.Context) ([]PluginStatus, error) {
	list, err := r.client.Plugins(ctx)
	return list, r.asked(err)
}

func (r *relay) reload(ctx context.Context, plugin, path string) error {
	return r.asked(r.client.Reload(ctx, threadsocket.ReloadParams{Plugin: plugin, Path: path}))
}

func (r *relay) command(ctx context.Context, c PluginCommand) (json.RawMessage, error) {
	out, err := r.client.Command(ctx, c)
	return out, r.asked(err)
}

// callTool has a connection of its own, whose end ends the call.
func (r *relay) callTool(ctx context.Context, c ToolCall) (ToolResult, error) {
	p, err := threadsocket.Connect(ctx, r.process.path)
	if err != nil {
		return ToolResult{}, r.asked(err)
	}
	defer p.Close()
	result, err := p.Thread(r.id).CallTool(ctx, c)
	return result, r.asked(err)
}

func (r *relay) processes(ctx context.Context) ([]ThreadProcess, error) {
	list, err := r.client.Processes(ctx)
	return list, r.asked(err)
}

func (r *relay) fork(ctx context.Context, f Fork) (event.ThreadID, error) {
	fork, err := r.client.Fork(ctx, threadsocket.ForkParams{LastTurn: f.Through, BeforeTurn: f.Before, Name: f.Name})
	return fork.Thread, r.asked(err)
}

func (r *relay) revert(ctx context.Context, before string, turns int) (Reverted, error) {
	var done threadsocket.RevertResult
	var err error
	if before != "" {
		done, err = r.client.Revert(ctx, threadsocket.RevertParams{BeforeTurn: before})
	} else {
		done, err = r.client.Rollback(ctx, threadsocket.RollbackParams{Turns: turns})
	}
	return Reverted{Before: done.BeforeTurn, Turns: done.Turns, Usage: done.Usage}, r.asked(err)
}

func (r *relay) rename(ctx context.Context, name string) error {
	return r.asked(r.client.Name(ctx, name))
}

func (r *relay) describe(ctx context.Context, git event.ThreadDescribed) error {
	return r.asked(r.client.Describe(ctx, git))
}

func (r *relay) archive(ctx context.Context, archive bool) error {
	return r.asked(r.client.Archive(ctx, archive))
}

// relayEvents reads the events of a thread with a subscription of its own. A reader that was too slow for the other process subscribes
// again after its last event.
type relayEvents struct {
	relay *relay
	merge bool
	only  string // see [threadsocket.SubscribeParams]
	last  uint64 // number of the last durable event that was returned, or before the first one

	mu struct {
		sync.Mutex
		client *threadsocket.Client
		leave  func()
		closed bool
	}
}

func (r *relay) follow(ctx context.Context, after uint64, p Policy) (source, error) {
	e := &relayEvents{relay: r, merge: p != Lossless, last: after}
	if err := e.subscribe(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *relayEvents) subscribe(ctx context.Context) error {
	c, leave, err := e.relay.subscription()
	if err != nil {
		return err
	}
	r, err := c.Subscribe(ctx, threadsocket.SubscribeParams{After: e.last, Merge: e.merge, Only: e.only})
	if err != nil {
		leave()
		return e.relay.asked(err)
	}
	e.last = min(e.last, r.After)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		leave()
		return errClosed
	}
	if e.mu.leave != nil {
		e.mu.leave() // the one that was too slow
	}
	e.mu.client, e.mu.leave = c, leave
	return nil
}

func (e *relayEvents) current() *threadsocket.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.client
}

func (e *relayEvents) next(ctx context.Context) (event.Event, error) {
	for {
		ev, err := e.current().Next(ctx)
		switch {
		case errors.Is(err, threadsocket.ErrLagged):
			if err := e.subscribe(ctx); err != nil {
				return event.Event{}, err
			}
			continue
		case err != nil:
			return event.Event{}, e.relay.asked(err)
		case ev.Seq == 0:
			return ev, nil
		case ev.Seq <= e.last:
			continue // the caller has it
		}
		e.last = ev.Seq
		return ev, nil
	}
}

func (e *relayEvents) more() bool { return e.current().More() }

func (e *relayEvents) position() uint64 { return e.last }

func (e *relayEvents) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.closed = true
	if e.mu.leave != nil {
		e.mu.leave()
	}
}
