package host

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/agent"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/role"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// openAgents creates the agents of the host, and the table of its tools.
func openAgents(h *Host) {
	c := h.opts.Config.Agents
	h.roles = rolesOf(h)
	h.agents = agent.New(agent.Config{
		Limits: agent.Limits{Threads: c.Threads, Total: c.Total, Depth: c.Depth, Hops: c.Hops},
		Wait:   c.Wait, WaitMin: c.WaitMin, WaitMax: c.WaitMax,
		Open: func(ctx context.Context, s agent.Spec) (*thread.Thread, error) { return openAgent(ctx, h, s) }, Load: h.ResumeThread, Unload: h.CloseThread, Thread: h.Thread,
		Choose: func(ctx context.Context, parent *thread.Thread, wanted agent.Choice) (agent.Choice, error) {
			return chooseModel(ctx, h, parent, wanted)
		}, Roles: h.roles,
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
	h.tools = slices.Concat(h.tools, goalTools(h))
}

// rolesOf returns the roles that the agents of the host can have: those of the configuration, and of files.
func rolesOf(h *Host) role.Set {
	c := h.opts.Config
	if c.Agents.Tools == schema.AgentsNone {
		return role.Set{}
	}
	s, problems := role.Read(c)
	for _, err := range problems {
		h.log.Warn("roles of agents not read", "err", err)
	}
	return s
}

// roleNotices returns the notices about roles that were not published before. Agents of a thread have the roles of their root.
func (r *running) roleNotices() (out []event.Notice) {
	if r.thread.Started().Agent != nil || r.role.Unattended {
		return nil
	}
	for _, o := range r.host.roles.All() {
		if o.Problem != nil && r.told.First("role "+o.Name) {
			out = append(out, event.Notice{
				Level: "warning", Text: fmt.Sprintf("no agent can have the role %q: %v", o.Name, o.Problem), Next: "correct it; `gantry agents roles` shows all",
			})
		}
	}
	return out
}

// chooseModel returns the model of a new agent. An effort that the model does not have is an error.
func chooseModel(ctx context.Context, h *Host, parent *thread.Thread, wanted agent.Choice) (agent.Choice, error) {
	set, own := parent.Settings(), parent.Model().Model
	name := cmp.Or(wanted.Model, h.opts.Config.Agents.Model, set.Model, own)
	m, err := h.models.Find(name)
	if err == nil {
		err = m.Problems.Err()
	}
	if err != nil {
		return agent.Choice{}, fmt.Errorf("model %q can't be used: %w; there are %s", name, err, someModels(h.opts.Config))
	}
	if wanted.Effort == "" {
		if name == own {
			wanted.Effort = set.Reasoning
		}
		return agent.Choice{Model: name, Effort: wanted.Effort}, nil
	}
	open, err := h.models.Open(ctx, parent.ID(), m)
	if err != nil {
		return agent.Choice{}, fmt.Errorf("model %q can't be used: %w", name, err)
	}
	if efforts := open.Row.ReasoningEfforts; !slices.Contains(efforts, wanted.Effort) {
		return agent.Choice{}, fmt.Errorf("model %q does not have the reasoning effort %q; it has [%s]", name, wanted.Effort, strings.Join(efforts, ", "))
	}
	return agent.Choice{Model: name, Effort: wanted.Effort}, nil
}

// openAgent starts the thread of a new agent. It has the settings of the agent that spawns it.
func openAgent(ctx context.Context, h *Host, s agent.Spec) (*thread.Thread, error) {
	of, set := s.Parent.Started(), s.Parent.Settings()
	model, err := h.models.Find(s.Model)
	if err != nil {
		return nil, err
	}
	change := thread.Change{Approval: set.Approval, Sandbox: set.Sandbox, Reasoning: s.Effort}
	start := event.ThreadStarted{
		Cwd: set.Cwd, Model: model.Label, Provider: model.Provider, ModelName: model.Name, HostVersion: h.opts.Version, Source: event.SourceAgent,
		Parent: s.Parent.ID(), Agent: &s.Agent, Inherited: s.Inherited, Instructions: h.baseFor(model), Ephemeral: h.opts.Ephemeral,
		DeveloperInstructions: agent.Instructions(s.Agent.Path, h.opts.Config.Agents.Threads, s.Inherited != nil),
	}
	if s.Instructions != "" {
		start.DeveloperInstructions += "\n\n" + s.Instructions
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
	cfg.Budget = usage.Budget{Tokens: a.Budget.Tokens, USD: a.Budget.USD, TurnTokens: cfg.Budget.TurnTokens, TurnUSD: cfg.Budget.TurnUSD}
	if parent, err := h.running(start.Parent); err == nil {
		cfg.Above = parent.thread.Meter()
		if parent.below != nil {
			cfg.Above = parent.below
		}
	}
	root, ok := h.Thread(a.Root)
	return func(t *thread.Thread) {
		t.Meter().Named("the agent "+a.Path, fmt.Sprintf("agent.%s.budget.", cmp.Or(a.Role, role.Default)))
		if ok {
			t.Approvals().Under(root.Approvals(), a.Path)
		}
	}
}

// above yields the agents above one, as far as they run. The root is the last.
func (r *running) above() iter.Seq[*running] {
	return func(yield func(*running) bool) {
		for at := r; at.thread.Started().Agent != nil; {
			start := at.thread.Started()
			next, err := r.host.running(start.Parent)
			if err != nil {
				next, err = r.host.running(start.Agent.Root)
			}
			if err != nil || !yield(next) {
				return
			}
			at = next
		}
	}
}

// boundAgent narrows a turn of an agent to what the agents above it may do now.
func (r *running) boundAgent(out event.TurnStarted) event.TurnStarted {
	mode, b := r.bounds()
	out.Sandbox = role.Narrower(out.Sandbox, role.Narrower(mode, b.Sandbox))
	for above := range r.above() {
		out.Approval = cmp.Or(above.thread.Settings().Approval, r.host.opts.Config.Approval.Policy)
	}
	return out
}

// bounds returns what limits the thread of an agent now: the widest sandbox mode among those of the agents above it, which an approval
// may exceed as it may theirs, and the bounds of its role and of theirs, which no approval exceeds. Nothing limits other threads.
func (r *running) bounds() (mode string, b event.Bounds) {
	own := r.thread.Started().Agent
	if own == nil {
		return "", b
	}
	b = own.Bounds
	for above := range r.above() {
		mode = role.Narrower(mode, above.sandbox())
		if a := above.thread.Started().Agent; a != nil {
			b = role.Meet(b, a.Bounds)
		}
	}
	return mode, b
}

// beyond returns why a call exceeds the bounds of an agent's role; empty: it does not.
func beyond(b event.Bounds, q policy.Request) string {
	if role.Confines(b) && (q.Escalation != nil || q.PermissionRequest || q.Outside) {
		return fmt.Sprintf("the role of this agent, or of one above it, is bound to the sandbox mode %s, and no approval exceeds that; go on without it, or report what is missing", b.Sandbox)
	}
	if b.NoNetwork && slices.ContainsFunc(q.Effects, func(e contract.Effect) bool {
		switch e.(type) {
		case contract.NetworkEffect, contract.BrowserEffect:
			return true
		}
		return false
	}) {
		return "the role of this agent, or of one above it, has no network; go on without it, or report what is missing"
	}
	return ""
}

// allows reports whether the thread has a tool. Only the roles of agents leave out tools.
func (r *running) allows(b event.Bounds, e *registry.Entry) bool {
	t := role.Tool{Names: []string{e.Name, e.FullName()}, Hooks: e.HookAliases, Plain: e.Plugin == "" || r.host.plugins.BuiltIn(e.Plugin)}
	if e.HookName != "" {
		t.Hooks = append(slices.Clip(t.Hooks), e.HookName)
	}
	return role.Allows(b, t)
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

// agentsMeter returns what counts the usage of all agents of a root; nil: the thread is an agent's.
func agentsMeter(h *Host, t *thread.Thread) *usage.Meter {
	if t.Started().Agent != nil {
		return nil
	}
	b := h.opts.Config.Agents.Budget
	return usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: b.Tokens, USD: b.USD}).Named("the group of all agents", "agents.budget.").Under(t.Meter())
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
				r.below.AddBelow(i.Tokens)
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
