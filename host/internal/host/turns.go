package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/role"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Turn implements [thread.Engine].
func (h *Host) Turn(ctx context.Context, t *thread.Thread, id event.TurnID, in thread.Submission) (plan thread.Plan, err error) {
	r, err := h.running(t.ID())
	if err != nil {
		return plan, err
	}
	plan.Participants = []turn.Participant{clientContext{r}} // needed even if the turn can't run, because its input is kept
	if err := r.awaitAgents(ctx); err != nil {
		return plan, err
	}
	var pursuit *goal.InTurn
	if r.goal != nil {
		pursuit = r.goal.Turn(id)
	}
	start, set := t.Started(), in.Change.With(t.Settings())
	has := t.Model()
	plan.Started = r.access(set)
	plan.Started.Model, plan.Started.Provider, plan.Started.ModelName = has.Model, has.Provider, has.ModelName
	if in.Task != nil { // it does not ask the model
		return plan, nil
	}
	if !in.Compact && r.role.Sandbox == "" { // the sandbox of a role was checked by the code that assigned it
		if err := h.sandbox.Check(ctx, plan.Started.Sandbox, plan.Started.Cwd); err != nil {
			return plan, err
		}
	}
	if hooks := r.hookTurn(id, plan.Started); hooks != nil { // needed even if the turn can't run, because its input is kept
		plan.Participants = append(plan.Participants, hooks)
		plan.Notices = append(plan.Notices, hooks.Notices()...)
	}
	if !r.role.Unattended && r.told.First("hooks") {
		plan.Notices = append(plan.Notices, h.hookNotices...)
	}
	own, err := r.model(set.Model)
	if err != nil {
		return plan, err
	}
	// The model is told about the change only if its instructions are different.
	if sel := modelset.Selection(own); sel != has {
		plan.Changed = &event.ModelChanged{From: has, To: sel}
	}
	// The provider starts while the tools are loaded.
	if slot := h.plugins.Slot(own.Provider); slot != nil {
		slot.Warm()
	}
	broken := h.plugins.Load(ctx)
	plan.Notices = append(append(plan.Notices, r.storeNotices()...), r.readAgents(set.Cwd)...)
	if ctx.Err() == nil { // otherwise some plugins were not tried
		plan.Notices = append(plan.Notices, pluginset.Changes(r.broken, broken)...)
		r.broken = broken
	}
	chain := h.models.Chain(t.ID(), own)
	chain.NoHosted = r.role.NoHostedTools
	model, err := chain.Next(ctx)
	if err != nil {
		plan.Started.Model, plan.Started.Provider, plan.Started.ModelName = own.Label, own.Provider, own.Name
		return plan, err
	}
	plan.Notices = append(append(plan.Notices, chain.Notices(model)...), r.use(model)...)
	plan.Started.Model, plan.Started.Provider, plan.Started.ModelName = model.Config.Label, model.Config.Provider, model.Config.Name
	plan.Started.ContextWindow = model.Row.ContextWindow
	h.plugins.WarmTools() // they start while the model thinks
	late, err := r.awaitSources(ctx)
	plan.Notices = slices.Concat(plan.Notices, late, r.rulesNotices(), r.roleNotices(), r.pluginWarnings(), r.hiddenTools())
	if err != nil {
		return plan, err
	}
	files := checkpoint.NewTracker(h.store, set.Cwd)
	var aroundCalls hook.Hooks = hook.None{}
	participants := []turn.Participant{clientContext{r}}
	if hooks := r.hookTurn(id, plan.Started); hooks != nil {
		aroundCalls = hooks
		participants = append(participants, hooks)
	}
	granter := r.granter()
	pipeline := r.pipeline(id, plan.Started, own.Label, aroundCalls, files, granter)
	tools := r.catalogue(plan.Started)
	started := plan.Started
	common := llm.Request{System: []string{start.Instructions}, PromptCacheKey: cmp.Or(r.role.CacheKey, start.CacheKey, string(t.ID())), OutputSchema: in.OutputSchema, ReasoningEffort: set.Reasoning}
	usual := func() (launch.Grant, error) { // the grant of a command without escalation
		all, _ := t.Approvals().Permitted(id)
		return granter.Grant(h.life, orchestrate.GrantRequest{Sandbox: started.Sandbox, Cwd: set.Cwd, Permitted: all})
	}
	participants = append(participants,
		contextSource{h, r, id, start, started, own},
		&modelset.Choice{Chain: chain, Request: common, OnModel: r.use},
		offlineWait{h, t},
		commandSandbox{h.launcher, string(t.ID()), usual},
		pluginWarnings{r},
		turnDiff{files},
		agentsOf{h.agents, t, unfinished(h, in)},
	)
	if !r.role.Unattended { // otherwise the meter is that of another thread, whose model is told
		participants = append(participants, t.Meter())
	}
	h.agents.Began(t.ID())
	if r.code != nil {
		participants = append(participants, r.code)
	}
	if pursuit != nil {
		participants = append(participants, pursuit)
	}
	if plan.Changed != nil {
		participants = append(participants, modelset.Previous{Set: h.models, Thread: t.ID(), Model: has, Request: common})
	}
	plan.Config = turn.Config{
		Participants: participants,
		Settings: orchestrate.Settings{
			Thread: t.ID(), Turn: id, Cwd: set.Cwd, Approval: policy.Approval(started.Approval), Sandbox: started.Sandbox,
			Output: history.PolicyOf(model.Row), Caps: capsOf(h.opts.Config.Limits), Traits: model.Row.Traits(),
		},
		Model: model.Client, Calls: pipeline, Tools: tools, Provider: model.Config.Provider, Row: model.Row,
		Request: model.Request(common),
		Compaction: turn.Compaction{
			Limit: h.opts.Config.History.CompactAtTokens, Body: h.opts.Config.History.CompactNew, Prompt: h.opts.Config.History.CompactPrompt,
		},
		Limits: turn.Limits{HandBack: start.Agent != nil, Samplings: r.samplings(), Time: h.opts.Config.Limits.TurnTime, BusyWait: h.opts.Config.Limits.BusyWait},
	}
	return plan, nil
}

// access returns the folder, the approval policy and the sandbox mode of a turn with these settings.
func (r *running) access(set event.Settings) event.TurnStarted {
	c := r.host.opts.Config
	out := event.TurnStarted{
		Cwd: set.Cwd, Approval: cmp.Or(set.Approval, c.Approval.Policy), Sandbox: cmp.Or(r.role.Sandbox, set.Sandbox, c.Sandbox.Mode),
	}
	if r.role.Unattended {
		out.Approval = string(policy.Never)
	}
	return r.boundAgent(out)
}

// samplings returns how many requests a turn may make; 0: any number.
func (r *running) samplings() int {
	_, b := r.bounds()
	return role.Meet(b, event.Bounds{Samplings: int(r.host.opts.Config.Limits.Samplings)}).Samplings
}

// granter returns what says what the processes of the thread's calls may do.
func (r *running) granter() grants.Granter {
	h := r.host
	return grants.Granter{
		Launcher: h.launcher, Config: h.opts.Config, Home: h.opts.Home, Environ: h.opts.Environ, Held: held(h), Bounds: r.bounds,
		Tmp: func() (string, error) { return h.scratch.Thread(r.thread.ID()) },
	}
}

// pipeline returns what runs the calls of a turn. model is the label of the model that the guardian is by default.
func (r *running) pipeline(id event.TurnID, started event.TurnStarted, model string, hooks hook.Hooks, files *checkpoint.Tracker, granter grants.Granter) *orchestrate.Pipeline {
	h, t, mode := r.host, r.thread, started.Sandbox
	equip := func(q policy.Request) policy.Request {
		return h.rules.Equip(q, h.environ.Tools())
	}
	return orchestrate.New(orchestrate.Deps{
		Hooks: hooks, Policy: func(q policy.Request) policy.Decision { return r.decide(equip(q)) }, Reviewer: r.reviewer(id, started, model),
		Approver: t.Approvals(), Rulebook: h.rules, Journal: t,
		Retry: func(q policy.Request, res *contract.Result) (*contract.Escalation, bool) {
			return policy.Retry(equip(q), res)
		},
		Permits: t.Approvals(),
		Granter: granter,
		Backends: func(label string) (orchestrate.ToolBackend, bool) {
			f, ok := h.plugins.Backend(label)
			if ok {
				r.plugins.Use(label, f)
			}
			return f, ok
		},
		HostTools: r.hostTool, BuiltIn: h.plugins.BuiltIn, Tool: func(e *registry.Entry) *policy.Tool { return h.plugins.ToolPolicy(e, mode) },
		Keep: func(text string) (string, error) { return r.outputs.Keep(h.scratch, t.ID(), r.sandbox(), text) },
		Denial: func(g launch.Grant, cwd, output string) *event.Denial {
			return grants.Denial(h.opts.Environ, g, cwd, output)
		}, Processes: h.launcher, Files: files, Control: r.views.Wait, Redact: h.redactor(),
	}, h.tokens, h.log.Named("call").With("thread", t.ID()))
}

// model returns the model with which a turn begins, under the current configuration. wanted is the user's choice; "": the thread's model.
func (r *running) model(wanted string) (*config.Model, error) {
	h, t := r.host, r.thread
	if wanted != "" {
		return h.models.Find(wanted)
	}
	m, err := h.models.Find(t.Model().Model)
	if f, ok := errors.AsType[diag.Failure](err); ok {
		f.Diagnostics[0].Next += fmt.Sprintf("; `gantry resume %s --model NAME` goes on with another model", t.ID())
	}
	return m, err
}

// callCaps are the limits of a call's output. MaxModelTokens is compatible with codex.
var callCaps = contract.CallCaps{MaxOutputBytes: 8 << 20, MaxInlineBytes: 1 << 20, MaxModelTokens: 10_000}

// capsOf lowers the caps to the configured output limit.
func capsOf(l config.Limits) contract.CallCaps {
	caps := callCaps
	if l.OutputBytes > 0 {
		caps.MaxOutputBytes = min(caps.MaxOutputBytes, l.OutputBytes)
	}
	return caps
}
