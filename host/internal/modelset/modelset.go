// Package modelset chooses and opens the models of a configuration.
//
// It owns: which model a name means, which settings of the user apply to a model, and which model continues a turn if another one can't
// answer. It must not know: how a request becomes a turn, and what an answer contains.
//
// Start with [Set.Find] and [Set.Chain].
package modelset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/model"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Set is the models of a configuration.
type Set struct {
	config   *config.Config
	plugins  *plugin.Supervisor
	override func(*config.Model)
}

// New returns the models of a configuration. override changes each model that a user or a thread names; nil: nothing.
func New(c *config.Config, plugins *plugin.Supervisor, override func(*config.Model)) *Set {
	return &Set{config: c, plugins: plugins, override: override}
}

// Find returns the model that a user names: the label of a block, or PROVIDER/NAME.
func (s *Set) Find(name string) (*config.Model, error) {
	m, err := s.config.Find(name)
	if err != nil || s.override == nil {
		return m, err
	}
	changed := *m
	s.override(&changed)
	return &changed, nil
}

// Selection identifies a model in events.
func Selection(m *config.Model) event.Selection {
	return event.Selection{Model: m.Label, Provider: m.Provider, ModelName: m.Name}
}

// Model is a model that can be sent requests.
type Model struct {
	Client  *model.Client
	Config  *config.Model
	Row     llm.ModelRow   // of its provider, with the user's settings applied
	Hosted  []string       // the provider's own tools that it may use
	Notices []event.Notice // for the people of a thread, once
}

// Open asks the provider of a model for its row. It starts the provider if necessary.
func (s *Set) Open(ctx context.Context, thread event.ThreadID, m *config.Model) (*Model, error) {
	if err := m.Problems.Err(); err != nil {
		return nil, err
	}
	slot := s.plugins.Slot(m.Provider)
	if slot == nil {
		return nil, fmt.Errorf("%s: model %q needs provider %q, which is not configured", m.Range, m.Label, m.Provider)
	}
	out := &Model{Client: model.New(slot, thread, s.otherProviders(m.Provider)...), Config: m}
	err := pluginset.RetryCrash(func() (err error) {
		out.Row, err = out.Client.Row(ctx, m.Name)
		return err
	})
	if err != nil {
		return nil, out.Client.Unreachable(ctx, err)
	}
	for _, note := range out.Row.Notes {
		out.Notices = append(out.Notices, event.Notice{Level: "warning", Text: note})
	}
	out.limitWindow()
	if limit := s.config.History.ToolOutputTokens; limit > 0 {
		out.Row.TruncationLimit = limit
		if out.Row.TruncationMode == "bytes" {
			out.Row.TruncationLimit *= 4
		}
	}
	if err := out.offerHosted(s.config.Sandbox); err != nil {
		return nil, err
	}
	return out, nil
}

// otherProviders returns the user's enabled providers other than one.
func (s *Set) otherProviders(label string) (out []string) {
	for _, b := range s.config.Providers {
		if b.Enabled && !b.BuiltIn() && b.Label != label {
			out = append(out, b.Label)
		}
	}
	return out
}

// Request completes a request whose other fields are the same for all models.
func (m *Model) Request(common llm.Request) llm.Request {
	common.Model, common.ReasoningEffort, common.HostedTools = m.Config.Name, cmp.Or(common.ReasoningEffort, m.Config.Reasoning), m.Hosted
	if n := m.Config.MaxOutputTokens; n > 0 {
		common.Generation.MaxTokens = &n
	}
	return common
}

// fallback returns what a turn needs to continue with the model.
func (m *Model) fallback(common llm.Request) *turn.Fallback {
	return &turn.Fallback{
		Model: m.Client, Provider: m.Config.Provider, Row: m.Row, Request: m.Request(common), Output: history.PolicyOf(m.Row), Traits: m.Row.Traits(),
	}
}

// limitWindow applies the user's context_window, up to the model's maximum.
func (m *Model) limitWindow() {
	want, most := m.Config.ContextWindow, m.Row.MaxContextWindow
	if want <= 0 {
		return
	}
	m.Row.ContextWindow, m.Row.ContextWindowSource = want, llm.WindowConfig
	if most <= 0 || want <= most {
		return
	}
	m.Row.ContextWindow = most
	m.Notices = append(m.Notices, event.Notice{
		Level: "warning",
		Text:  fmt.Sprintf("context_window of model %q is %d, which exceeds the maximum of %s, %d; using %d", m.Config.Label, want, m.Config.Name, most, most),
		Next: fmt.Sprintf("Set it to %d or less, or remove it (%s). If the model accepts more, configure that in its provider: "+
			"`gantry plugin inspect %s` shows the settings.", most, m.Config.Range, m.Config.Provider),
	})
}

// offerHosted decides which of the provider's own tools the model is offered: those in hosted_tools whose effects the sandbox permits.
// They run at the provider, so there is no later check.
func (m *Model) offerHosted(sandbox config.Sandbox) error {
	var refused []string
	for _, want := range m.Config.HostedTools {
		i := slices.IndexFunc(m.Row.HostedTools, func(t llm.HostedTool) bool { return t.Kind == want.Kind })
		if i < 0 {
			return diag.Failure{Diagnostics: diag.Diagnostics{m.noHosted(want)}}
		}
		if allowed(m.Row.HostedTools[i].Effects, sandbox) {
			m.Hosted = append(m.Hosted, want.Kind)
		} else {
			refused = append(refused, want.Kind)
		}
	}
	if len(refused) > 0 {
		m.Notices = append(m.Notices, event.Notice{
			Level: "warning",
			Text:  fmt.Sprintf("model %q is not offered %s of its provider: the sandbox does not permit their effects", m.Config.Label, diag.Quoted(refused)),
			Next:  "Set sandbox.network = true, or take them out of hosted_tools.",
		})
	}
	return nil
}

// allowed reports whether the sandbox permits the effects of a tool that runs at the provider. Unknown effects are not permitted.
func allowed(effects []string, sandbox config.Sandbox) bool {
	return sandbox.Mode == "full-access" || !slices.ContainsFunc(effects, func(effect string) bool {
		return effect != "network" || !sandbox.Network
	})
}

func (m *Model) noHosted(want config.HostedTool) diag.Diagnostic {
	var there []string
	for _, t := range m.Row.HostedTools {
		there = append(there, t.Kind)
	}
	detail := fmt.Sprintf("Provider %q runs no tools for %s.", m.Config.Provider, m.Config.Name)
	if len(there) > 0 {
		detail = fmt.Sprintf("What provider %q runs for %s: %s.", m.Config.Provider, m.Config.Name, strings.Join(there, ", "))
	}
	return diag.Diagnostic{
		Severity: diag.Error, Summary: fmt.Sprintf("model %q has no hosted tool %q", m.Config.Label, want.Kind), Detail: detail,
		Range: want.Range, Next: diag.DidYouMean(want.Kind, there, "take it out of hosted_tools"),
	}
}
