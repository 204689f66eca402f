package hub

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// local is a thread that runs in this process.
type local struct {
	hub    *Hub
	space  *space
	thread *thread.Thread
	facade *Thread
	over   chan struct{} // closed when the thread has ended and its lock is released

	st struct { // guarded by the hub's mutex
		uses      int           // followers and requests
		left      time.Time     // when uses became 0
		unloading chan struct{} // closed when the thread is unloaded, or stays after all; nil: it is not being unloaded
	}
}

// register makes a thread known that a host runs. facade is the thread that has moved to the host; nil: it is new in this process.
func (h *Hub) register(s *space, t *thread.Thread, facade *Thread) (*local, error) {
	l := &local{hub: h, space: s, thread: t, facade: facade, over: make(chan struct{})}
	if facade == nil {
		l.facade = newThread(t.ID(), t.Started(), l)
	}
	h.mu.Lock()
	select {
	case <-t.Done(): // threadEnded may have been called
		h.mu.Unlock()
		h.leave(s)
		return nil, errClosed
	default:
	}
	h.mu.threads[t.ID()] = l
	delete(h.mu.moving, t.ID())
	h.mu.Unlock()
	if facade == nil {
		h.monitor.loaded(t.ID(), Status{State: Idle})
	}
	notify(h.wake) // there may be too many
	return l, nil
}

// threadEnded is called when a thread has ended in a host.
func (h *Hub) threadEnded(id event.ThreadID) {
	h.mu.Lock()
	l := h.mu.threads[id]
	delete(h.mu.threads, id)
	moves := l != nil && l.facade.moves()
	if moves {
		h.mu.moving[id] = l.facade
	}
	if l != nil {
		close(l.over)
		if l.st.unloading != nil {
			close(l.st.unloading)
			l.st.unloading = nil
		}
	}
	h.mu.Unlock()
	if l != nil {
		h.leave(l.space)
	}
	if moves {
		return
	}
	h.monitor.ended(id)
	if l != nil {
		l.facade.end()
	}
}

// use keeps the thread from being unloaded until done is called.
func (l *local) use() (done func(), err error) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.st.unloading != nil || l.hub.mu.threads[l.thread.ID()] != l {
		return nil, errClosed
	}
	l.st.uses++
	return func() {
		l.hub.mu.Lock()
		defer l.hub.mu.Unlock()
		l.st.left = time.Now()
		if l.st.uses--; l.st.uses == 0 {
			notify(l.hub.wake)
		}
	}, nil
}

// usedBy returns the function by which clients in other processes keep threads of the hub from being unloaded.
func usedBy(h *Hub) func(event.ThreadID) (done func(), err error) {
	return func(id event.ThreadID) (func(), error) {
		h.mu.Lock()
		l := h.mu.threads[id]
		h.mu.Unlock()
		if l == nil { // one that is not unloaded, such as a review's, or that begins or has ended
			return func() {}, nil
		}
		return l.use()
	}
}

func (l *local) remote() bool    { return false }
func (l *local) ephemeral() bool { return l.space.workspace.Ephemeral }

// submitAs submits while the thread is in use.
func (l *local) submitAs(ctx context.Context, s thread.Submission) (Accepted, error) {
	done, err := l.use()
	if err != nil {
		return Accepted{}, err
	}
	defer done()
	s.ExitAfterTurn = l.hub.cfg.OneTurn
	a, err := l.thread.Submit(ctx, s)
	return accepted(a), err
}

func accepted(a thread.Accepted) Accepted {
	return Accepted{Turn: a.Turn, Steered: a.Steered, Concurrent: a.Concurrent, Repeated: a.Repeated}
}

func (l *local) submit(ctx context.Context, s Submission) (Accepted, error) {
	in, err := s.Input.turn()
	if err != nil {
		return Accepted{}, err
	}
	return l.submitAs(ctx, thread.Submission{
		Input: in, OutputSchema: s.OutputSchema, Change: changeOf(s.Settings), Durable: s.Durable,
	})
}

func changeOf(s event.Settings) thread.Change {
	return thread.Change{Model: s.Model, Cwd: s.Cwd, Reasoning: s.Reasoning, Approval: s.Approval, Sandbox: s.Sandbox}
}

func (l *local) steer(ctx context.Context, into event.TurnID, in Input) (Accepted, error) {
	converted, err := in.turn()
	if err != nil {
		return Accepted{}, err
	}
	done, err := l.use()
	if err != nil {
		return Accepted{}, err
	}
	defer done()
	a, err := l.thread.Steer(ctx, into, converted)
	return accepted(a), err
}

func (l *local) interrupt(ctx context.Context, turn event.TurnID) error {
	return l.thread.InterruptTurn(ctx, turn, orchestrate.ErrInterrupted)
}

func (l *local) answer(_ context.Context, question string, a Answer) error {
	return l.thread.Approvals().Resolve(question, approval.Answer{Choice: a.Choice, Data: a.Data, By: "user"})
}

func (l *local) attend(_ context.Context, as presence) (leave func(), err error) {
	if as == asClient {
		return l.thread.Approvals().ServeTools(), nil
	}
	attend, wait := l.thread.Approvals().Attend(), l.thread.Wait()
	return func() { attend(); wait() }, nil
}

func (l *local) settings(context.Context) (event.Settings, error) { return l.thread.Settings(), nil }

func (l *local) configure(ctx context.Context, s event.Settings) error {
	done, err := l.use()
	if err != nil {
		return err
	}
	defer done()
	return l.thread.Configure(ctx, changeOf(s))
}

func (l *local) compact(ctx context.Context) (Accepted, error) {
	return l.submitAs(ctx, thread.Submission{Compact: true})
}

func (l *local) shell(ctx context.Context, command string, timeout time.Duration) (Accepted, error) {
	task, call, err := l.space.host.Shell().Task(command, timeout)
	if err != nil {
		return Accepted{}, err
	}
	a, err := l.submitAs(ctx, thread.Submission{Task: task})
	a.Call = call
	return a, err
}

func (l *local) review(ctx context.Context, target ReviewTarget) (Accepted, error) {
	task, err := l.space.host.Reviewer().Task(ctx, l.thread.Settings().Cwd, target)
	if err != nil {
		return Accepted{}, err
	}
	return l.submitAs(ctx, thread.Submission{Task: task})
}

func (l *local) post(ctx context.Context, m event.Mail) (Posted, error) {
	done, err := l.use()
	if err != nil {
		return Posted{}, err
	}
	defer done()
	p, err := l.thread.Post(ctx, m)
	return Posted{Item: p.Item, Turn: p.Turn, Began: p.Began}, err
}

func (l *local) undo(ctx context.Context, p UndoParams) (UndoReport, error) {
	return l.space.host.Library().UndoFiles(ctx, l.thread.ID(), p)
}

func (l *local) stopSession(ctx context.Context, plugin, session string) error {
	return l.space.host.Library().StopSession(ctx, l.thread.ID(), plugin, session)
}

func (l *local) plugins(ctx context.Context) ([]PluginStatus, error) {
	return l.space.host.Plugins().PluginStatus(ctx), nil
}

func (l *local) command(ctx context.Context, c PluginCommand) (json.RawMessage, error) {
	done, err := l.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return l.space.host.Plugins().RunCommand(ctx, c)
}

func (l *local) callTool(ctx context.Context, c ToolCall) (ToolResult, error) {
	done, err := l.use()
	if err != nil {
		return ToolResult{}, err
	}
	defer done()
	return host.CallTool(ctx, l.space.host, l.thread, c, l.hub.cfg.OneTurn)
}

func (l *local) processes(context.Context) ([]ThreadProcess, error) {
	return l.space.host.Library().ThreadProcesses(l.thread.ID())
}

func (l *local) reload(ctx context.Context, plugin, path string) error {
	return l.space.host.Plugins().ReloadPlugin(ctx, plugin, path)
}

func (l *local) fork(ctx context.Context, f Fork) (event.ThreadID, error) {
	return l.space.host.Library().ForkThread(ctx, l.thread.ID(), branch.Point{Before: f.Before, Through: f.Through}, f.Name)
}

func (l *local) revert(ctx context.Context, before string, turns int) (Reverted, error) {
	return reverted(l.space.host.Library().RevertThread(ctx, l.thread.ID(), before, turns))
}

func reverted(e event.ThreadReverted, err error) (Reverted, error) {
	return Reverted{Before: e.Before, Turns: e.Turns, Usage: e.Thread.Usage}, err
}

func (l *local) rename(ctx context.Context, name string) error {
	return l.space.host.Library().NameThread(ctx, l.thread.ID(), name)
}

func (l *local) describe(ctx context.Context, git event.ThreadDescribed) error {
	return threadsocket.Describe(ctx, l.thread, git)
}

func (l *local) archive(ctx context.Context, archive bool) error {
	return l.space.host.Library().ArchiveThread(ctx, l.thread.ID(), archive)
}
