package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/model"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sampler is what a thread's model is asked with.
type sampler struct {
	client *model.Client
	row    llm.ModelRow
	model  *config.Model
}

// Turn implements [thread.Engine].
func (h *Host) Turn(ctx context.Context, t *thread.Thread, id event.TurnID, in thread.Submission) (plan thread.Plan, err error) {
	h.mu.Lock()
	r := h.mu.threads[t.ID()]
	h.mu.Unlock()
	if r == nil {
		return plan, thread.ErrClosed
	}
	start := t.Started()
	plan.Started = event.TurnStarted{
		Cwd: start.Cwd, Model: start.Model, Provider: start.Provider, ModelName: start.ModelName,
		Approval: h.opts.Config.Approval.Policy, Sandbox: h.opts.Config.Sandbox.Mode,
	}
	// The provider comes up while the tools are listed.
	if slot := h.plugins.Slot(start.Provider); slot != nil {
		slot.Warm()
	}
	broken, leftOut := h.loadTools(ctx)
	plan.Notices = append(h.storeNews(r), leftOut...)
	if ctx.Err() == nil { // else some were not looked at
		plan.Notices = append(plan.Notices, news(r.broken, broken)...)
		r.broken = broken
	}
	s, err := h.samplerOf(ctx, t.ID(), start)
	if err != nil {
		return plan, err
	}
	r.sample.Store(s)
	plan.Started.ContextWindow = s.row.ContextWindow
	for label := range h.families { // tools come up while the model thinks
		h.plugins.Slot(label).Warm()
	}
	spine := orchestrate.New(orchestrate.Stages{
		Hooks: hook.None{}, Policy: policy.Decide, Approver: t.Desk(), Granter: granter{h.launcher, h.opts.Config}, Journal: t, Retry: orchestrate.NoRetry,
		Families: func(label string) (orchestrate.Family, bool) {
			f, ok := h.families[label]
			if ok {
				r.plugs.use(label, f)
			}
			return f, ok
		},
		Processes: h.launcher,
	}, h.tokens, h.log.Named("call").With("thread", t.ID()))
	started := plan.Started
	plan.Config = turn.Config{
		Settings: orchestrate.Settings{
			Thread: t.ID(), Turn: id, Cwd: start.Cwd, Approval: policy.Approval(started.Approval), Sandbox: started.Sandbox,
			Output: history.PolicyOf(s.row), Caps: callCaps,
		},
		Model: s.client, Calls: spine, Tools: h.registry.Snapshot, Provider: s.model.Provider, Row: s.row,
		Request: llm.Request{
			Model: s.model.Name, System: []string{start.Instructions}, ReasoningEffort: s.model.Reasoning,
			PromptCacheKey: string(t.ID()), OutputSchema: in.OutputSchema,
		},
		Context: func() ([]llm.Message, func()) { return r.context(h, start, started) },
		Limits:  turn.Limits{Samplings: int(h.opts.Config.Limits.Samplings)},
	}
	if n := s.model.MaxOutputTokens; n > 0 {
		plan.Request.Generation.MaxTokens = &n
	}
	if slices.Contains(s.row.InputModalities, "image") {
		plan.Settings.Traits = append(plan.Settings.Traits, "images")
	}
	return plan, nil
}

// callCaps are what one call may send; codex-compatible where the model sees it.
var callCaps = contract.CallCaps{MaxOutputBytes: 8 << 20, MaxInlineBytes: 1 << 20, MaxModelTokens: 10_000}

// context says what the model must be told now; only what changed since the last time that told was called.
func (r *running) context(h *Host, start event.ThreadStarted, t event.TurnStarted) (ms []llm.Message, told func()) {
	now := time.Now()
	zone, _ := now.Zone()
	facts := prompt.Facts{
		Cwd: start.Cwd, Shell: filepath.Base(cmp.Or(os.Getenv("SHELL"), "sh")), Date: now.Format(time.DateOnly), Timezone: zone,
		Approval: t.Approval, Sandbox: t.Sandbox, Plugins: h.instructions(),
	}
	texts := r.plugs.texts()
	return append(prompt.Context(r.facts, facts), sayContexts(r.told, texts)...), func() { r.facts, r.told = &facts, texts }
}

// instructions joins the fixed instructions of the tool plugins that are known already.
func (h *Host) instructions() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, b := range h.opts.Config.Plugins {
		if text := h.mu.instructions[b.Label]; text != "" {
			out = append(out, "## "+b.Label+"\n"+text)
		}
	}
	return strings.Join(out, "\n\n")
}

// samplerOf resolves a thread's model under the configuration of today.
func (h *Host) samplerOf(ctx context.Context, id event.ThreadID, start event.ThreadStarted) (*sampler, error) {
	m, ok := h.opts.Config.Model(start.Model)
	if !ok {
		return nil, h.unknownModel(start.Model)
	}
	if err := m.Problems.Err(); err != nil {
		return nil, err
	}
	slot := h.plugins.Slot(m.Provider)
	if slot == nil {
		return nil, fmt.Errorf("%s: model %q wants provider %q, which is not configured", m.Range, m.Label, m.Provider)
	}
	s := &sampler{client: model.New(slot, id), model: m}
	var row llm.ModelRow
	err := onceMore(func() (err error) {
		row, err = s.client.Row(ctx, m.Name)
		return err
	})
	if pe, ok := errors.AsType[*plugin.Error](err); ok {
		return nil, &llm.Error{Code: llm.ErrNoRoute, Message: placed(err), Next: pe.NextStep()}
	}
	if err != nil {
		return nil, err
	}
	if m.ContextWindow > 0 {
		row.ContextWindow = m.ContextWindow
	}
	if limit := h.opts.Config.History.ToolOutputTokens; limit > 0 {
		row.TruncationLimit = limit
		if row.TruncationMode == "bytes" {
			row.TruncationLimit *= 4
		}
	}
	s.row = row
	return s, nil
}

// onceMore asks a plugin again whose process died while it was asked something that has no effect.
func onceMore(ask func() error) error {
	err := ask()
	if e, ok := errors.AsType[*plugin.Error](err); ok && e.Crash && e.Phase == plugin.PhaseCall {
		err = ask()
	}
	return err
}

// sample asks a thread's model once on behalf of a plugin's call. What it uses is the thread's.
func (h *Host) sample(ctx context.Context, c orchestrate.Call, req *llm.Request) (*llm.Message, llm.Usage, llm.FinishReason, error) {
	h.mu.Lock()
	r := h.mu.threads[c.Thread]
	h.mu.Unlock()
	if r == nil || r.sample.Load() == nil {
		return nil, llm.Usage{}, llm.FinishUnknown, errors.New("the thread has ended")
	}
	s := r.sample.Load()
	if e, ok := errors.AsType[*turn.BudgetError](r.thread.Meter().Allow()); ok {
		return nil, llm.Usage{}, llm.FinishUnknown, &llm.Error{Code: llm.ErrQuotaExceeded, Message: e.Error(), Next: e.NextStep()}
	}
	req.Model = s.model.Name
	req.Messages = history.New(req.Messages).ForPrompt(history.TraitsOf(s.row))
	var fold llm.Fold
	var usage llm.Usage
	var reason llm.FinishReason
	var response string
	for ev, err := range s.client.Stream(ctx, req, c.Turn, 0) {
		if err != nil {
			return nil, llm.Usage{}, llm.FinishUnknown, err
		}
		fold.Add(ev)
		switch ev := ev.(type) {
		case llm.StepStart:
			response = ev.ResponseID
		case llm.StepFinish:
			// It was used, whatever becomes of the call meanwhile.
			used := turn.Usage(s.model.Provider, s.row, response, ev.Usage)
			used.Call = c.ID
			if err := r.thread.Meter().Report(context.WithoutCancel(ctx), r.thread, c.Turn, used); err != nil {
				h.log.Warn("usage of a plugin's request not stored", "thread", c.Thread, "call", c.ID, "err", err)
			}
		case llm.Finish:
			usage, reason = ev.Usage, ev.Reason
		}
	}
	return fold.Message(), usage, reason, nil
}

// granter makes grants from the configuration. Full access is the only mode that can be enforced until confinement comes:
// the launcher refuses everything else.
type granter struct {
	launcher *launch.Launcher
	config   *config.Config
}

// Grant implements [orchestrate.Granter].
func (g granter) Grant(_ context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	l := g.config.Limits
	grant := launch.Grant{
		Mode: r.Sandbox, WritableRoots: g.config.Sandbox.WritableRoots,
		Network: g.config.Sandbox.Network || r.Sandbox == launch.FullAccess,
		Limits: launch.Limits{
			MemoryBytes: l.MemoryBytes, MaxPids: l.Pids, CPUSeconds: int64(l.CPUTime.Seconds()), OpenFiles: l.OpenFiles,
			OutputBytes: l.OutputBytes,
		},
	}
	return grant, g.launcher.Check(grant)
}

// commandEnvironment is what a command starts from: the host's own, without what only providers may know.
func (h *Host) commandEnvironment(event.ThreadID) []string {
	var out []string
	for _, kv := range h.opts.Environ {
		name, _, _ := strings.Cut(kv, "=")
		if !h.private[name] {
			out = append(out, kv)
		}
	}
	return out
}

// next finds the next step in an error.
func next(err error) string {
	if e, ok := errors.AsType[*plugin.Error](err); ok {
		return e.NextStep()
	}
	if f, ok := errors.AsType[diag.Failure](err); ok {
		return f.Diagnostics.Errors()[0].Next
	}
	return ""
}
