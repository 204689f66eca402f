package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/agent"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usage"
)

// openAgents creates the agents of the host, and the table of its tools.
func openAgents(h *Host) {
	c := h.opts.Config.Agents
	h.agents = agent.New(agent.Config{
		Limits: agent.Limits{Threads: c.Threads, Total: c.Total, Depth: c.Depth, Hops: c.Hops},
		Wait:   c.Wait, WaitMin: c.WaitMin, WaitMax: c.WaitMax,
		Open: func(ctx context.Context, s agent.Spec) (*thread.Thread, error) { return openAgent(ctx, h, s) }, Load: h.ResumeThread, Unload: h.CloseThread, Thread: h.Thread,
		Ends: func(ctx context.Context, id event.ThreadID) ([]agent.End, error) { return endsOf(ctx, h.store, id) },
		Keep: func(t *thread.Thread, text string) (string, error) {
			return h.scratch.Write(t.ID(), t.Settings().Sandbox, "answer", text)
		},
		Go: h.begin, Logger: h.log.Named("agent"),
	})
	h.tools = hosttool.Default()
	if c.Tools != schema.AgentsNone {
		h.tools = slices.Concat(h.tools, h.agents.Table())
	}
}

// openAgent starts the thread of a new agent. It has the settings of the agent that spawns it.
func openAgent(ctx context.Context, h *Host, s agent.Spec) (*thread.Thread, error) {
	of, set := s.Parent.Started(), s.Parent.Settings()
	name := cmp.Or(s.Model, h.opts.Config.Agents.Model, set.Model, s.Parent.Model().Model)
	model, err := h.models.Find(name)
	if err == nil {
		err = model.Problems.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("model %q can't be used: %w; there are %s", name, err, someModels(h.opts.Config))
	}
	change := thread.Change{Approval: set.Approval, Sandbox: set.Sandbox, Reasoning: s.Effort}
	if s.Effort == "" && name == s.Parent.Model().Model {
		change.Reasoning = set.Reasoning
	}
	start := event.ThreadStarted{
		Cwd: set.Cwd, Model: model.Label, Provider: model.Provider, ModelName: model.Name, HostVersion: h.opts.Version, Source: event.SourceAgent,
		Parent: s.Parent.ID(), Agent: &s.Agent, Inherited: s.Inherited, Instructions: h.baseFor(model), Ephemeral: h.opts.Ephemeral,
		DeveloperInstructions: agent.Instructions(s.Agent.Path, h.opts.Config.Agents.Threads, s.Inherited != nil),
	}
	if model.Label == of.Model {
		start.Instructions = of.Instructions
	}
	if parent, err := h.running(s.Parent.ID()); err == nil && parent.thread.Started().Agent == nil && of.DeveloperInstructions != "" {
		start.DeveloperInstructions = of.DeveloperInstructions + "\n\n" + start.DeveloperInstructions
	}
	t, err := h.launchThread(ctx, thread.Config{ID: s.ID, Start: &start, State: thread.State{Messages: s.History}}, child.Role{})
	if err != nil {
		return nil, err
	}
	if err := setUp(ctx, t, Params{Change: change}); err != nil {
		h.CloseThread(t.ID(), thread.ErrClosed)
		return nil, err
	}
	return t, nil
}

// someModels names models that an agent can have.
func someModels(c *config.Config) string {
	const most = 5
	var names []string
	for _, m := range c.Models {
		if names = append(names, m.Label); len(names) == most {
			break
		}
	}
	return strings.Join(names, ", ")
}

// AgentsAtWork reports whether agents of a thread are at work, which end with it.
func AgentsAtWork(h *Host, id event.ThreadID) bool { return len(h.agents.Busy(id)) > 0 }

// endsOf returns how the turns of a stored thread have ended.
func endsOf(ctx context.Context, s *store.Store, id event.ThreadID) (out []agent.End, err error) {
	for e, err := range s.Events(ctx, id, 0) {
		if err != nil {
			return out, err
		}
		switch b := e.Body.(type) {
		case event.TurnStarted:
			out = append(out, agent.End{Turn: e.Turn})
		case event.TurnEnded:
			if n := len(out); n > 0 && out[n-1].Turn == e.Turn {
				out[n-1].End = &b
			}
		}
	}
	return out, nil
}

// aboveAgent connects the thread of an agent with those above it, as far as they run: their budgets bound it, and the people of the root
// answer its questions. All threads of a tree share the prompt cache.
func aboveAgent(h *Host, cfg *thread.Config, as *child.Role) func(*thread.Thread) {
	start := cfg.State.Start
	if cfg.Start != nil {
		start = *cfg.Start
	}
	a := start.Agent
	if a == nil {
		return func(*thread.Thread) {}
	}
	as.CacheKey = string(a.Root)
	if parent, ok := h.Thread(start.Parent); ok {
		cfg.Above = parent.Meter()
		cfg.Budget = usage.Budget{TurnTokens: cfg.Budget.TurnTokens, TurnUSD: cfg.Budget.TurnUSD}
	}
	root, ok := h.Thread(a.Root)
	return func(t *thread.Thread) {
		if ok {
			t.Approvals().Under(root.Approvals(), a.Path)
		}
	}
}

// boundAgent narrows a turn of an agent to what the agents above it may do now.
func (r *running) boundAgent(out event.TurnStarted) event.TurnStarted {
	for t := r.thread; t.Started().Agent != nil; {
		above, err := r.host.running(t.Started().Parent)
		if err != nil {
			return out
		}
		t = above.thread
		out.Sandbox = narrower(out.Sandbox, above.sandbox())
		out.Approval = cmp.Or(t.Settings().Approval, r.host.opts.Config.Approval.Policy)
	}
	return out
}

// narrower returns the sandbox mode that allows less.
func narrower(a, b string) string {
	return sandboxModes[min(slices.Index(sandboxModes, a), slices.Index(sandboxModes, b))]
}

// reverted goes back to what remains after a revert. Agents that were spawned in reverted turns end.
func (r *running) reverted(context *event.Reference) {
	r.restore(context)
	r.host.begin(func() { r.host.agents.Reverted(r.thread) }) // ends when they have ended
}

// hasAgents reports whether a thread is the root of agents of another host.
func hasAgents(t *thread.Thread) bool {
	return t.Started().Agent == nil && t.Feature(agent.FeatureID) != nil
}

// resumeAgents finds out what became of the agents of a root that was resumed.
func (r *running) resumeAgents() {
	h, t := r.host, r.thread
	if r.team == nil {
		return
	}
	h.begin(func() { // ends when it is known, or with the host
		defer close(r.team)
		if infos, err := h.store.Threads(h.life, store.Filter{Ancestor: t.ID(), IncludeWorkers: true, Sources: []string{event.SourceAgent}}); err == nil {
			for _, i := range infos {
				t.Meter().AddBelow(i.Tokens)
			}
		}
		h.agents.Resume(h.life, t)
	})
}

// awaitAgents waits until it is known what became of the thread's agents.
func (r *running) awaitAgents(ctx context.Context) error {
	if r.team == nil {
		return nil
	}
	select {
	case <-r.team:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// agentsOf tells the agents of a root when it works, and its model what became of them.
type agentsOf struct {
	agents *agent.Agents
	t      *thread.Thread
	// unfinished says what happens when the turn is to end, and its host with it, while agents are at work; empty: the host stays.
	unfinished string
}

// unfinished returns what happens to agents that are at work at the end of a turn; see [agentsOf].
func unfinished(h *Host, in thread.Submission) string {
	if !in.ExitAfterTurn {
		return ""
	}
	return h.opts.Config.Agents.Unfinished
}

// TakeNotes implements [turn.NoteSource].
func (a agentsOf) TakeNotes() []string { return agent.TakeNotes(a.t) }

// Stop implements [hook.Stops].
func (a agentsOf) Stop(ctx context.Context, e hook.Ending) (v hook.StopVerdict, err error) {
	busy := a.agents.Busy(a.t.ID())
	if a.unfinished == "" || len(busy) == 0 {
		return v, nil
	}
	who := strings.Join(busy, ", ")
	switch {
	case a.unfinished == schema.UnfinishedWait:
		err = a.agents.AwaitQuiet(ctx, a.t)
		v = hook.StopVerdict{Block: true, Reason: "These agents were at work when you were done, and you have waited for them: " + who + ". Go on with what they have answered."}
	case a.unfinished == schema.UnfinishedRemind && !e.Active:
		v = hook.StopVerdict{Block: true, Reason: "These agents are still at work: " + who + ". They are stopped when you are done. Wait for them with wait_agent if you need " +
			"what they do, or end them with interrupt_agent."}
	}
	return v, err
}

// OnEnd implements [turn.EndListener].
func (a agentsOf) OnEnd(context.Context) (out []event.Body) {
	if busy := a.agents.Busy(a.t.ID()); a.unfinished != "" && len(busy) > 0 {
		out = append(out, event.Notice{
			Level: "warning", Text: "stopped while at work: agents " + strings.Join(busy, ", "),
			Next: "Resume the thread to let them go on, or set unfinished = \"wait\" in the agents block.",
		})
	}
	a.agents.Ended(a.t.ID())
	return out
}
