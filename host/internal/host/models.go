package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/model"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sampler is a model that requests can go to.
type sampler struct {
	client  *model.Client
	row     llm.ModelRow
	model   *config.Model
	hosted  []string       // tools of its provider that it may use
	notices []event.Notice // what people must know of it; each is told once
}

// request is a request to the model, given what is the same for all models.
func (s *sampler) request(common llm.Request) llm.Request {
	common.Model, common.ReasoningEffort, common.HostedTools = s.model.Name, cmp.Or(common.ReasoningEffort, s.model.Reasoning), s.hosted
	if n := s.model.MaxOutputTokens; n > 0 {
		common.Generation.MaxTokens = &n
	}
	return common
}

// traits are those of the calls of a turn.
func (s *sampler) traits() []string { return s.row.Traits() }

// FindModel returns the model that a user names: the label of a block, or PROVIDER/NAME.
func (h *Host) FindModel(name string) (*config.Model, error) {
	m, err := h.opts.Config.Find(name)
	if err != nil || h.opts.Override == nil {
		return m, err
	}
	changed := *m
	h.opts.Override(&changed)
	return &changed, nil
}

// selection names a model in events.
func selection(m *config.Model) event.Selection {
	return event.Selection{Model: m.Label, Provider: m.Provider, ModelName: m.Name}
}

// open asks the provider of a model for its row. The provider comes up now, if it has not before.
func (h *Host) open(ctx context.Context, thread event.ThreadID, m *config.Model) (*sampler, error) {
	if err := m.Problems.Err(); err != nil {
		return nil, err
	}
	slot := h.plugins.Slot(m.Provider)
	if slot == nil {
		return nil, fmt.Errorf("%s: model %q wants provider %q, which is not configured", m.Range, m.Label, m.Provider)
	}
	s := &sampler{client: model.New(slot, thread, h.otherProviders(m.Provider)...), model: m}
	err := onceMore(func() (err error) {
		s.row, err = s.client.Row(ctx, m.Name)
		return err
	})
	if err != nil {
		return nil, s.client.Unreachable(ctx, err)
	}
	for _, note := range s.row.Notes {
		s.notices = append(s.notices, event.Notice{Level: "warning", Text: note})
	}
	s.narrow()
	if limit := h.opts.Config.History.ToolOutputTokens; limit > 0 {
		s.row.TruncationLimit = limit
		if s.row.TruncationMode == "bytes" {
			s.row.TruncationLimit *= 4
		}
	}
	if err := s.offerHosted(h.opts.Config.Sandbox); err != nil {
		return nil, err
	}
	return s, nil
}

// narrow lays the user's window over the row's. It holds as far as the model takes as much.
func (s *sampler) narrow() {
	want, most := s.model.ContextWindow, s.row.MaxContextWindow
	if want <= 0 {
		return
	}
	s.row.ContextWindow, s.row.ContextWindowSource = want, llm.WindowConfig
	if most <= 0 || want <= most {
		return
	}
	s.row.ContextWindow = most
	s.notices = append(s.notices, event.Notice{
		Level: "warning",
		Text:  fmt.Sprintf("context_window of model %q is %d, but %s takes %d at most: that holds", s.model.Label, want, s.model.Name, most),
		Next: fmt.Sprintf("Set it to %d or less, or leave it out (%s). If the model takes more, tell its provider: "+
			"`gantry plugin inspect %s` shows what its block takes.", most, s.model.Range, s.model.Provider),
	})
}

// otherProviders are those that the user has beside one.
func (h *Host) otherProviders(label string) (out []string) {
	for _, b := range h.opts.Config.Providers {
		if b.Enabled && !b.BuiltIn() && b.Label != label {
			out = append(out, b.Label)
		}
	}
	return out
}

// onceMore asks a plugin again whose process died while it was asked something that has no effect.
func onceMore(ask func() error) error {
	err := ask()
	if e, ok := errors.AsType[*plugin.Error](err); ok && e.Crash && e.Phase == plugin.PhaseCall {
		err = ask()
	}
	return err
}

// offerHosted decides which of the provider's own tools the model is offered: those that its block asks for, as far as the
// sandbox allows what they do. They run elsewhere, so that there is no other place to stop them.
func (s *sampler) offerHosted(sandbox config.Sandbox) error {
	var refused []string
	for _, want := range s.model.HostedTools {
		i := slices.IndexFunc(s.row.HostedTools, func(t llm.HostedTool) bool { return t.Kind == want.Kind })
		if i < 0 {
			return diag.Failure{Diagnostics: diag.Diagnostics{s.noHosted(want)}}
		}
		if allowed(s.row.HostedTools[i].Effects, sandbox) {
			s.hosted = append(s.hosted, want.Kind)
		} else {
			refused = append(refused, want.Kind)
		}
	}
	if len(refused) > 0 {
		s.notices = append(s.notices, event.Notice{
			Level: "warning",
			Text:  fmt.Sprintf("model %q is not offered %s of its provider: the sandbox does not allow what they do", s.model.Label, diag.Quoted(refused)),
			Next:  "Set sandbox.network = true, or take them out of hosted_tools.",
		})
	}
	return nil
}

// allowed tells whether the sandbox allows effects of a tool that runs elsewhere. What it does not know it does not allow.
func allowed(effects []string, sandbox config.Sandbox) bool {
	return sandbox.Mode == "full-access" || !slices.ContainsFunc(effects, func(effect string) bool {
		return effect != "network" || !sandbox.Network
	})
}

func (s *sampler) noHosted(want config.HostedTool) diag.Diagnostic {
	var there []string
	for _, t := range s.row.HostedTools {
		there = append(there, t.Kind)
	}
	detail := fmt.Sprintf("Provider %q runs no tools for %s.", s.model.Provider, s.model.Name)
	if len(there) > 0 {
		detail = fmt.Sprintf("What provider %q runs for %s: %s.", s.model.Provider, s.model.Name, strings.Join(there, ", "))
	}
	return diag.Diagnostic{
		Severity: diag.Error, Summary: fmt.Sprintf("model %q has no hosted tool %q", s.model.Label, want.Kind), Detail: detail,
		Range: want.Range, Next: diag.DidYouMean(want.Kind, there, "take it out of hosted_tools"),
	}
}

// lineup are the models that a turn may ask: the thread's own, and those that stand in for it in the order of its block.
// Who could not answer is not asked again. It belongs to the turn.
type lineup struct {
	host   *Host
	thread event.ThreadID
	left   []*config.Model
	asked  *config.Model // last
	failed []unable      // so far
	told   int           // of them, those that people know of

	noHosted bool // none of them gets tools of its vendor
}

// unable is a model that could not answer, and why.
type unable struct {
	model *config.Model
	why   error
}

func (h *Host) lineup(thread event.ThreadID, own *config.Model) *lineup {
	l := &lineup{host: h, thread: thread, left: []*config.Model{own}}
	for _, label := range own.Fallback {
		m, ok := h.opts.Config.Model(label) // the configuration sees to it that it is there
		if ok && !slices.ContainsFunc(l.left, func(l *config.Model) bool { return l.Label == m.Label }) {
			l.left = append(l.left, m)
		}
	}
	return l
}

// next opens the next model. It takes another where one can't be reached; a mistake in the thread's own model is told and
// not passed over.
func (l *lineup) next(ctx context.Context) (*sampler, error) {
	for len(l.left) > 0 {
		l.asked, l.left = l.left[0], l.left[1:]
		s, err := l.host.open(ctx, l.thread, l.asked)
		if err == nil && l.noHosted {
			s.hosted = nil
		}
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		if e, ok := errors.AsType[*llm.Error](err); len(l.failed) == 0 && !(ok && turn.AnotherMay(e, false)) {
			return nil, err
		}
		l.failed = append(l.failed, unable{l.asked, err})
	}
	return nil, l.nobody()
}

// instead opens the model that goes on after the one before could not answer.
func (l *lineup) instead(ctx context.Context, why *llm.Error) (*sampler, error) {
	l.failed = append(l.failed, unable{l.asked, why})
	return l.next(ctx)
}

// nobody is the error when no model is left.
func (l *lineup) nobody() error {
	first := l.failed[0]
	if len(l.failed) == 1 {
		return first.why
	}
	e := &llm.Error{Code: llm.ErrNoRoute, Message: "no model can answer: " + reasons(l.failed), Next: next(first.why)}
	if cause, ok := errors.AsType[*llm.Error](first.why); ok {
		e.Code = cause.Code
	}
	return e
}

func reasons(failed []unable) string {
	var out []string
	for _, f := range failed {
		out = append(out, fmt.Sprintf("%s: %v", named(f.model), f.why))
	}
	return strings.Join(out, "; ")
}

// named names a model for people.
func named(m *config.Model) string {
	if s := m.Provider + "/" + m.Name; s != m.Label {
		return fmt.Sprintf("%q (%s)", m.Label, s)
	}
	return fmt.Sprintf("%q", m.Label)
}

// news tells people which model goes on for which, and why; empty when there is nothing new.
func (l *lineup) news(s *sampler) (out []event.Notice) {
	if failed := l.failed[l.told:]; len(failed) > 0 {
		out = append(out, event.Notice{
			Level: "warning", Text: fmt.Sprintf("%s goes on with this turn, since another can't answer: %s", named(s.model), reasons(failed)),
			Next: fmt.Sprintf("The next turn begins with %q again.", l.failed[0].model.Label),
		})
		l.told = len(l.failed)
	}
	return out
}

// fallbacks is the [turn.FallbackSource] of the models that stand in for the thread's.
type fallbacks struct {
	models *lineup
	r      *running
	common llm.Request
}

// Fallback implements [turn.FallbackSource].
func (f fallbacks) Fallback(ctx context.Context, why *llm.Error) (*turn.Fallback, error) {
	s, err := f.models.instead(ctx, why)
	if err != nil {
		return nil, err
	}
	f.r.sample.Store(s)
	next := s.fallback(f.common)
	next.Notices = append(f.models.news(s), f.r.modelNews(s)...)
	return next, nil
}

// HasFallback implements [turn.FallbackSource].
func (f fallbacks) HasFallback() bool { return len(f.models.left) > 0 }

// fallback lets a turn go on with the model.
func (s *sampler) fallback(common llm.Request) *turn.Fallback {
	return &turn.Fallback{
		Model: s.client, Provider: s.model.Provider, Row: s.row, Request: s.request(common), Output: history.PolicyOf(s.row), Traits: s.traits(),
	}
}

// previousModel is the model that a thread had before its user chose another.
type previousModel struct {
	h      *Host
	thread event.ThreadID
	has    event.Selection
	common llm.Request
}

// PreviousModel implements [turn.PreviousModel].
func (p previousModel) PreviousModel(ctx context.Context) (*turn.Fallback, error) {
	m, err := p.h.FindModel(p.has.Model)
	if err != nil {
		return nil, err
	}
	s, err := p.h.open(ctx, p.thread, m)
	if err != nil {
		return nil, err
	}
	return s.fallback(p.common), nil
}

// modelNews returns the notices of a model that the thread has not had yet.
func (r *running) modelNews(s *sampler) (out []event.Notice) {
	for _, n := range s.notices {
		if r.told.First(n.Text) {
			out = append(out, n)
		}
	}
	return out
}

// sample asks a thread's model once on behalf of a plugin's call. What it uses is the thread's.
func (h *Host) sample(ctx context.Context, c orchestrate.Call, req *llm.Request) (*llm.Message, llm.Usage, llm.FinishReason, error) {
	h.mu.Lock()
	r := h.mu.threads[c.Thread]
	h.mu.Unlock()
	if r == nil || r.sample.Load() == nil {
		return nil, llm.Usage{}, llm.FinishUnknown, errors.New("the thread has ended")
	}
	s, meter := r.sample.Load(), r.thread.Meter()
	if e, ok := errors.AsType[*usage.BudgetError](meter.Allow()); ok {
		return nil, llm.Usage{}, llm.FinishUnknown, &llm.Error{Code: llm.ErrQuotaExceeded, Message: e.Error(), Next: e.NextStep()}
	}
	req.Model = s.model.Name
	req.Messages = history.New(req.Messages).ForPrompt(history.TraitsOf(s.row))
	req.HostedTools = slices.DeleteFunc(slices.Clone(req.HostedTools), func(kind string) bool { return !slices.Contains(s.hosted, kind) })
	var fold llm.Fold
	var sum llm.Usage
	var reason llm.FinishReason
	var response string
	begun, counted := false, false
	for ev, err := range s.client.Stream(ctx, req, c.Turn, 0) {
		if err != nil {
			if begun && !counted {
				meter.Lost()
			}
			return nil, llm.Usage{}, llm.FinishUnknown, err
		}
		fold.Add(ev)
		switch ev := ev.(type) {
		case llm.StepStart:
			response, begun = ev.ResponseID, true
		case llm.StepFinish:
			counted = true
			// It was used, whatever becomes of the call meanwhile.
			used := usage.Of(s.model.Provider, s.row, response, ev.Usage)
			used.Call = c.ID
			if err := meter.Report(context.WithoutCancel(ctx), r.thread, c.Turn, used); err != nil {
				h.log.Warn("usage of a plugin's request not stored", "thread", c.Thread, "call", c.ID, "err", err)
			}
		case llm.Finish:
			sum, reason = ev.Usage, ev.Reason
		}
	}
	return fold.Message(), sum, reason, nil
}
