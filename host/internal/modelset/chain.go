package modelset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Chain is the models that a turn may ask: the thread's own, then its fallbacks in the order of its block. A model that failed is not
// asked again. A chain belongs to its turn.
type Chain struct {
	NoHosted bool // the models get no tools of their providers

	set      *Set
	thread   event.ThreadID
	begins   string // label of the model with which the next turn begins
	left     []*config.Model
	current  *config.Model
	failed   []failedModel
	reported int // of failed
}

// failedModel is a model that could not answer.
type failedModel struct {
	model *config.Model
	err   error
}

// Chain returns the models for a turn of a thread with this model.
func (s *Set) Chain(thread event.ThreadID, own *config.Model) *Chain {
	c := &Chain{set: s, thread: thread, begins: own.Label, left: []*config.Model{own}}
	for _, label := range own.Fallback {
		m, ok := s.config.Model(label) // the configuration was checked for missing fallbacks
		if ok && !slices.ContainsFunc(c.left, func(l *config.Model) bool { return l.Label == m.Label }) {
			c.left = append(c.left, m)
		}
	}
	return c
}

// Next opens the first remaining model that can be reached. A configuration error in the thread's own model is returned; no fallback
// replaces that model.
func (c *Chain) Next(ctx context.Context) (*Model, error) {
	for len(c.left) > 0 {
		c.current, c.left = c.left[0], c.left[1:]
		m, err := c.open(ctx, c.current)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		if e, ok := errors.AsType[*llm.Error](err); len(c.failed) == 0 && !(ok && turn.MayFallBack(e, false)) {
			return nil, err
		}
		c.failed = append(c.failed, failedModel{c.current, err})
	}
	return nil, c.exhausted()
}

func (c *Chain) open(ctx context.Context, which *config.Model) (*Model, error) {
	m, err := c.set.Open(ctx, c.thread, which)
	if err == nil && c.NoHosted {
		m.Hosted = nil
	}
	return m, err
}

// exhausted returns the error of a chain without remaining models. It has the code and the next step of the first failure.
func (c *Chain) exhausted() error {
	first := c.failed[0]
	if len(c.failed) == 1 {
		return first.err
	}
	_, next := hint.Split(first.err)
	e := &llm.Error{Code: llm.ErrNoRoute, Message: "no model can answer: " + reasons(c.failed), Next: next}
	if cause, ok := errors.AsType[*llm.Error](first.err); ok {
		e.Code, e.Next = cause.Code, cause.Next
	}
	return e
}

func reasons(failed []failedModel) string {
	var out []string
	for _, f := range failed {
		out = append(out, fmt.Sprintf("%s: %v", displayName(f.model), f.err))
	}
	return strings.Join(out, "; ")
}

// displayName names a model in messages.
func displayName(m *config.Model) string {
	if s := m.Provider + "/" + m.Name; s != m.Label {
		return fmt.Sprintf("%q (%s)", m.Label, s)
	}
	return fmt.Sprintf("%q", m.Label)
}

// Notices tells people that a model replaces others, and why. It reports each failure once.
func (c *Chain) Notices(m *Model) (out []event.Notice) {
	if failed := c.failed[c.reported:]; len(failed) > 0 {
		out = append(out, event.Notice{
			Level: "warning", Text: fmt.Sprintf("%s continues this turn, because another model can't answer: %s", displayName(m.Config), reasons(failed)),
			Next: fmt.Sprintf("The next turn begins with %q again.", c.begins),
		})
		c.reported = len(c.failed)
	}
	return out
}

// Choice opens the models with which a turn continues: it is the [turn.FallbackSource] and the [turn.Adjuster] of a chain.
type Choice struct {
	Chain   *Chain
	Request llm.Request                 // what is the same for all models
	OnModel func(*Model) []event.Notice // called when another model takes over; returns notices about it
}

// Fallback implements [turn.FallbackSource].
func (f *Choice) Fallback(ctx context.Context, why *llm.Error) (*turn.Fallback, error) {
	c := f.Chain
	c.failed = append(c.failed, failedModel{c.current, why})
	m, err := c.Next(ctx)
	if err != nil {
		return nil, err
	}
	return f.takeOver(m, c.Notices(m)), nil
}

// takeOver returns what the turn needs to continue with a model.
func (f *Choice) takeOver(m *Model, why []event.Notice) *turn.Fallback {
	next := m.fallback(f.Request)
	next.Notices = append(why, f.OnModel(m)...)
	return next
}

// HasFallback implements [turn.FallbackSource].
func (f *Choice) HasFallback() bool { return len(f.Chain.left) > 0 }

// Adjust implements [turn.Adjuster]. Another model has fallbacks of its own, which do not replace it if it can't be opened.
func (f *Choice) Adjust(ctx context.Context, to turn.Adjustment) (*turn.Fallback, error) {
	c, was := f.Chain, f.Chain.current
	chosen, after := was, c.left
	if to.Model != "" {
		var err error
		if chosen, err = c.set.Find(to.Model); err != nil {
			return nil, err
		}
		after = c.set.Chain(c.thread, chosen).left[1:]
	}
	m, err := c.open(ctx, chosen)
	if err != nil {
		return nil, err
	}
	if efforts := m.Row.ReasoningEfforts; to.Effort != "" && len(efforts) > 0 && !slices.Contains(efforts, to.Effort) {
		return nil, hint.With(fmt.Errorf("model %s has no reasoning effort %q", displayName(chosen), to.Effort), "use one of "+strings.Join(efforts, ", "))
	}
	c.current, c.left, f.Request.ReasoningEffort = chosen, after, to.Effort
	var why []event.Notice
	if chosen.Label != was.Label {
		c.failed, c.reported = nil, 0
		why = append(why, event.Notice{
			Level: "info", Text: displayName(chosen) + " continues this turn, because the user has chosen it",
			Next: fmt.Sprintf("The next turn begins with %q again.", c.begins),
		})
	}
	return f.takeOver(m, why), nil
}

// Previous is the [turn.PreviousModel] of a thread whose user chose another model.
type Previous struct {
	Set     *Set
	Thread  event.ThreadID
	Model   event.Selection
	Request llm.Request // what is the same for all models
}

// PreviousModel implements [turn.PreviousModel].
func (p Previous) PreviousModel(ctx context.Context) (*turn.Fallback, error) {
	m, err := p.Set.Find(p.Model.Model)
	if err != nil {
		return nil, err
	}
	opened, err := p.Set.Open(ctx, p.Thread, m)
	if err != nil {
		return nil, err
	}
	return opened.fallback(p.Request), nil
}
