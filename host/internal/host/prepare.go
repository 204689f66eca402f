package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/features"
	"github.com/gantry-agent/gantry/host/internal/model"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// PrepareParams select a request: the first one after a submission.
type PrepareParams struct {
	Thread event.ThreadID // a stored thread; "": a new one in Cwd
	Cwd    string
	// Submission to the thread. If its input is blank, the request contains no new message; a new thread needs input.
	Submission thread.Submission
}

// Prepared is a request that was not sent.
type Prepared struct {
	model.Prepared
	Model   event.Selection
	Notices []event.Notice // that the thread would have published
}

// Prepare returns the next request of a thread. It runs a normal turn, on a thread in memory, until the model is asked. Nothing is
// stored or sent.
func (h *Host) Prepare(ctx context.Context, p PrepareParams) (*Prepared, error) {
	asked := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &dryRun{host: h, blank: p.Submission.Input.Blank(), done: func() { cancel(errPrepared) }}
	cfg := thread.Config{Features: features.All(), Sink: o, Engine: o, Budget: usage.Budget(h.opts.Config.Budget), Logger: h.log.Named("prepare")}
	if err := h.prepareThread(ctx, &cfg, p); err != nil {
		return nil, err
	}
	if o.blank {
		p.Submission.Input.Parts = []llm.Part{&llm.Text{Text: "(nothing yet)"}} // a turn needs input; Stream removes it again
	}
	keep := withGoal(h, &cfg, child.Role{})
	t := thread.New(cfg)
	o.running = newRunning(h, t, child.Role{}, cfg.State.ContextState)
	keep(o.running)
	o.running.offer(t.Started().Tools)
	h.mu.Lock()
	h.mu.threads[cfg.ID] = o.running
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.mu.threads, cfg.ID)
		h.mu.Unlock()
	}()
	o.running.plugins.Begin(ctx)
	var ended error
	var work sync.WaitGroup
	work.Go(func() { ended = t.Run(ctx) }) // ends with the turn, which cancels ctx
	_, err := t.Submit(ctx, p.Submission)
	if err != nil {
		cancel(err)
	}
	work.Wait()
	switch {
	case errors.Is(ended, errPrepared):
		return o.result()
	case asked.Err() != nil: // the thread may have been closed before it got its task
		return nil, context.Cause(asked)
	}
	return nil, cmp.Or(err, ended)
}

var errPrepared = errors.New("the request is prepared")

// prepareThread reads a stored thread, or describes a new one.
func (h *Host) prepareThread(ctx context.Context, cfg *thread.Config, p PrepareParams) (err error) {
	if p.Thread == "" {
		if p.Submission.Input.Blank() {
			return hint.New("a new thread has no request without a task", "enter a task")
		}
		m, err := h.models.Find(cmp.Or(p.Submission.Model, h.opts.Config.DefaultModel))
		if err != nil {
			return err
		}
		cfg.ID = event.NewThreadID()
		cfg.Start = &event.ThreadStarted{
			Cwd: p.Cwd, Model: m.Label, Provider: m.Provider, ModelName: m.Name, HostVersion: h.opts.Version, Instructions: h.baseFor(m),
		}
		return nil
	}
	if owner, held, err := h.store.Holder(ctx, p.Thread); err != nil {
		return err
	} else if held {
		return hint.With(fmt.Errorf("%s is running thread %s, so its next request is unknown", owner, p.Thread), "wait until it has ended")
	}
	cfg.ID = p.Thread
	if cfg.State, err = branch.Resume(ctx, h.store, p.Thread); err != nil {
		return fmt.Errorf("read thread %s: %w", p.Thread, err)
	}
	return nil
}

// dryRun is the environment of a thread in memory: a sink that drops events, an engine that plans turns like the host's, and a
// model that keeps the first request and returns an empty answer.
type dryRun struct {
	host    *Host
	running *running
	blank   bool
	done    func() // called when the turn has ended

	mu struct { // used by all goroutines that publish
		sync.Mutex
		planned bool
		notices []event.Notice
		ended   event.TurnEnded
	}
	// Written by the turn, and read after it has ended.
	started  event.TurnStarted
	prepared *model.Prepared
	err      error
}

// Turn implements [thread.Engine].
func (o *dryRun) Turn(ctx context.Context, t *thread.Thread, id event.TurnID, in thread.Submission) (thread.Plan, error) {
	o.mu.Lock()
	o.mu.planned = true
	o.mu.Unlock()
	plan, err := o.host.Turn(ctx, t, id, in)
	o.started, o.err = plan.Started, err
	plan.Model = o
	plan.Participants = slices.DeleteFunc(plan.Participants, opensModels) // nothing is sent
	return plan, err
}

// opensModels reports whether a participant lets a turn ask other models.
func opensModels(p turn.Participant) bool {
	_, falls := p.(turn.FallbackSource)
	_, previous := p.(turn.PreviousModel)
	return falls || previous
}

// Check implements [thread.Engine].
func (o *dryRun) Check(ctx context.Context, t *thread.Thread, c thread.Change) error {
	return o.host.Check(ctx, t, c)
}

// End implements [thread.Engine]. Plugins don't know the thread.
func (o *dryRun) End(context.Context, event.ThreadID) {}

// Stream implements [turn.Model]. Its answer ends the turn.
func (o *dryRun) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if o.blank {
			r.Messages = r.Messages[:len(r.Messages)-1]
		}
		o.prepared, o.err = o.running.sample.Load().Client.Prepare(ctx, r)
		for _, ev := range []llm.Event{
			llm.BlockStart{Kind: llm.BlockText, ID: "0"}, llm.BlockDelta{Kind: llm.BlockText, ID: "0", Text: "prepared"}, llm.BlockEnd{Kind: llm.BlockText, ID: "0"},
			llm.Finish{Reason: llm.FinishStop},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Append implements [thread.Sink].
func (o *dryRun) Append(_ context.Context, evs ...event.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range evs {
		switch b := e.Body.(type) {
		case event.Notice:
			o.mu.notices = append(o.mu.notices, b)
		case event.TurnEnded:
			if o.mu.planned { // otherwise it is the end of a turn that a killed host left open
				o.mu.ended = b
				o.done()
			}
		}
	}
	return nil
}

// Barrier implements [thread.Sink].
func (o *dryRun) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

// result returns the request or the error. It is called after the thread has ended.
func (o *dryRun) result() (*Prepared, error) {
	problem := o.mu.ended.Error
	e, ok := errors.AsType[*llm.Error](o.err)
	switch {
	case ok && e.Next != "":
		return nil, hint.With(e, e.Next)
	case o.err != nil:
		return nil, o.err
	case o.prepared != nil:
		s := o.started
		notices := append(o.mu.notices, o.host.plugins.MissingSettings(s.Provider)...)
		return &Prepared{*o.prepared, event.Selection{Model: s.Model, Provider: s.Provider, ModelName: s.ModelName}, notices}, nil
	case problem == nil:
		return nil, fmt.Errorf("the turn ended before its model was asked: %s", o.mu.ended.Reason)
	case problem.Next != "":
		return nil, hint.New(problem.Message, problem.Next)
	}
	return nil, errors.New(problem.Message)
}
