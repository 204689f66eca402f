package acp

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// preset is a mode: an approval policy and a sandbox mode.
type preset struct {
	id                acp.SessionModeId
	name, description string
	approval, sandbox string
}

// configured is the mode with values that no preset has.
const configured acp.SessionModeId = "configured"

// presets are the modes of every session.
func presets() []preset {
	return []preset{
		{"read-only", "Read only", "Reads files; asks before changing anything", "on-request", "read-only"},
		{"ask", "Ask", "Asks before every command and change", "untrusted", "workspace-write"},
		{"auto", "Auto", "Works in the folder of the session; asks before going beyond it", "on-request", "workspace-write"},
		{"full-access", "Full access", "Never asks, and has no sandbox", "never", "full-access"},
	}
}

// Identifiers of config options.
const (
	optionMode   acp.SessionConfigId = "mode"
	optionModel  acp.SessionConfigId = "model"
	optionEffort acp.SessionConfigId = "effort"
)

// defaults are the values of the configuration, which apply where a thread's settings are empty.
type defaults struct {
	approval, sandbox string
	model             string // of the thread's start
	models            []*config.Model
	// efforts returns those that a model supports. It asks the model's provider, once for each model, and may take [maxAsked]: nothing that
	// updates need may be locked meanwhile.
	efforts func(label string) []string
}

func (a *agent) defaultsOf(ctx context.Context, t *hub.Thread, set event.Settings) (defaults, error) {
	w := a.cfg.Workspace
	w.Dir = set.Cwd
	cfg, err := a.cfg.Hub.Configuration(ctx, w)
	if err != nil {
		return defaults{}, err
	}
	d := defaults{approval: cfg.Approval.Policy, sandbox: cfg.Sandbox.Mode, models: cfg.Models}
	var mu sync.Mutex
	known := map[string][]string{}
	d.efforts = func(label string) []string {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := known[label]; !ok {
			known[label] = a.effortsOf(a.life, w, label)
		}
		return known[label]
	}
	if st := t.Started(); st.Model != "" {
		d.model = st.Model
	} else {
		d.model = st.Provider + "/" + st.ModelName
	}
	return d, nil
}

// maxAsked limits how long a session waits for a provider.
const maxAsked = 10 * time.Second

// effortsOf asks a model's provider for the efforts that the model supports. If it can't be asked, they are the usual ones.
func (a *agent) effortsOf(ctx context.Context, w hub.Workspace, label string) []string {
	ctx, cancel := context.WithTimeout(ctx, maxAsked)
	defer cancel()
	o, err := a.cfg.Hub.Open(ctx, w)
	if err == nil {
		defer o.Close()
		row, err := o.Model(ctx, label)
		if err == nil {
			return row.ReasoningEfforts
		}
	}
	return []string{"low", "medium", "high"}
}

// modeOf returns the mode that settings amount to.
func (d defaults) modeOf(set event.Settings) acp.SessionModeId {
	approval, sandbox := cmp.Or(set.Approval, d.approval), cmp.Or(set.Sandbox, d.sandbox)
	for _, p := range presets() {
		if p.approval == approval && p.sandbox == sandbox {
			return p.id
		}
	}
	return configured
}

// modesOf returns the modes of a session. The one of the configuration is among them if no preset is the same.
func (d defaults) modesOf(set event.Settings) *acp.SessionModeState {
	out := &acp.SessionModeState{CurrentModeId: d.modeOf(set)}
	for _, p := range presets() {
		out.AvailableModes = append(out.AvailableModes, acp.SessionMode{Id: p.id, Name: p.name, Description: acp.Ptr(p.description)})
	}
	if out.CurrentModeId == configured || d.modeOf(event.Settings{}) == configured {
		out.AvailableModes = append(out.AvailableModes, acp.SessionMode{
			Id: configured, Name: "As configured", Description: acp.Ptr("The values of gantry.hcl"),
		})
	}
	return out
}

// change returns the settings that change to a mode.
func (d defaults) change(id acp.SessionModeId) (event.Settings, error) {
	for _, p := range presets() {
		if p.id == id {
			return event.Settings{Approval: p.approval, Sandbox: p.sandbox}, nil
		}
	}
	if id == configured {
		return event.Settings{Approval: d.approval, Sandbox: d.sandbox}, nil
	}
	return event.Settings{}, invalid("modeId", "there is no mode %q", cut(string(id), 80))
}

// optionsOf returns the config options of a session. The mode is one of them, since editors that know config options ignore modes.
func (d defaults) optionsOf(set event.Settings) []acp.SessionConfigOption {
	modes := d.modesOf(set)
	var choices []acp.SessionConfigSelectOption
	for _, m := range modes.AvailableModes {
		choices = append(choices, acp.SessionConfigSelectOption{Value: acp.SessionConfigValueId(m.Id), Name: m.Name, Description: m.Description})
	}
	out := []acp.SessionConfigOption{
		choice(optionMode, "Mode", acp.SessionConfigOptionCategoryMode, string(modes.CurrentModeId), choices),
	}
	choices = nil
	for _, m := range d.models {
		choices = append(choices, acp.SessionConfigSelectOption{
			Value: acp.SessionConfigValueId(m.Label), Name: m.Label, Description: acp.Ptr(m.Name + " of " + m.Provider),
		})
	}
	model := cmp.Or(set.Model, d.model)
	out = append(out, choice(optionModel, "Model", acp.SessionConfigOptionCategoryModel, model, choices))
	choices = nil
	efforts := d.efforts(model)
	for _, e := range efforts {
		choices = append(choices, acp.SessionConfigSelectOption{Value: acp.SessionConfigValueId(e), Name: strings.ToUpper(e[:1]) + e[1:]})
	}
	effort := set.Reasoning
	for _, m := range d.models {
		if m.Label == model {
			effort = cmp.Or(effort, m.Reasoning)
		}
	}
	if effort == "" && len(efforts) == 0 {
		return out // the model has none
	}
	return append(out, choice(optionEffort, "Reasoning effort", acp.SessionConfigOptionCategoryThoughtLevel, cmp.Or(effort, "medium"), choices))
}

// choice returns an option with a list of values. The current one is among them.
func choice(
	id acp.SessionConfigId, name string, category acp.SessionConfigOptionCategory, current string, values []acp.SessionConfigSelectOption,
) acp.SessionConfigOption {
	now := acp.SessionConfigValueId(current)
	if !slices.ContainsFunc(values, func(o acp.SessionConfigSelectOption) bool { return o.Value == now }) {
		values = append(values, acp.SessionConfigSelectOption{Value: now, Name: current})
	}
	list := acp.SessionConfigSelectOptionsUngrouped(values)
	return acp.SessionConfigOption{Select: &acp.SessionConfigOptionSelect{
		Type: "select", Id: id, Name: name, Category: &category, CurrentValue: now, Options: acp.SessionConfigSelectOptions{Ungrouped: &list},
	}}
}

func (s *session) modes() *acp.SessionModeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.defaults.modesOf(s.settings)
}

func (s *session) options() []acp.SessionConfigOption {
	s.mu.Lock()
	d, set := s.defaults, s.settings
	s.mu.Unlock()
	return d.optionsOf(set)
}

func (a *agent) setMode(ctx context.Context, p acp.SetSessionModeRequest) (any, func(), error) {
	s, err := a.live(ctx, p.SessionId)
	if err != nil {
		return nil, nil, err
	}
	change, err := s.defaults.change(p.ModeId)
	if err != nil {
		return nil, nil, err
	}
	return acp.SetSessionModeResponse{}, nil, s.configure(ctx, change)
}

func (a *agent) setOption(ctx context.Context, p acp.SetSessionConfigOptionRequest) (any, func(), error) {
	if p.ValueId == nil {
		return nil, nil, invalid("value", "the options of a session are lists of values: it must be one of them")
	}
	s, err := a.live(ctx, p.ValueId.SessionId)
	if err != nil {
		return nil, nil, err
	}
	value := string(p.ValueId.Value)
	var change event.Settings
	switch p.ValueId.ConfigId {
	case optionMode:
		change, err = s.defaults.change(acp.SessionModeId(value))
	case optionModel:
		change.Model = value
	case optionEffort:
		change.Reasoning = value
	default:
		err = invalid("configId", "there is no option %q", cut(string(p.ValueId.ConfigId), 80))
	}
	if err == nil && !offered(s.options(), p.ValueId.ConfigId, p.ValueId.Value) {
		err = invalid("value", "%q is not a value of the option %q", cut(value, 80), p.ValueId.ConfigId)
	}
	if err == nil {
		err = s.configure(ctx, change)
	}
	return acp.SetSessionConfigOptionResponse{ConfigOptions: s.options()}, nil, err
}

// offered reports whether a value is one of those of an option.
func offered(options []acp.SessionConfigOption, id acp.SessionConfigId, value acp.SessionConfigValueId) bool {
	for _, o := range options {
		for _, v := range *o.Select.Options.Ungrouped {
			if o.Select.Id == id && v.Value == value {
				return true
			}
		}
	}
	return false
}

// configure changes the thread's settings. While a turn runs, they are changed when it has ended, and the editor does not wait for that.
func (s *session) configure(ctx context.Context, change event.Settings) error {
	if s.agent.cfg.Hub.Status(s.thread.ID()).State == hub.Active {
		s.agent.begin(func() { // ends with the connection
			if err := s.thread.Configure(s.life, change); err != nil && s.life.Err() == nil {
				s.agent.log.Warn("settings not changed", "thread", s.id, "err", err)
			}
		})
	} else if err := s.thread.Configure(ctx, change); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = merged(s.settings, change)
	return nil
}

// merged returns settings with the fields of a change that are not empty.
func merged(set, change event.Settings) event.Settings {
	return event.Settings{
		Cwd: cmp.Or(change.Cwd, set.Cwd), Model: cmp.Or(change.Model, set.Model), Reasoning: cmp.Or(change.Reasoning, set.Reasoning),
		Approval: cmp.Or(change.Approval, set.Approval), Sandbox: cmp.Or(change.Sandbox, set.Sandbox),
	}
}

// changed returns the updates about settings that apply, if the editor knows others.
func (s *session) changed(set event.Settings) []acp.SessionUpdate {
	s.mu.Lock()
	s.settings = merged(s.settings, set)
	s.mu.Unlock()
	var out []acp.SessionUpdate
	if mode := s.modes().CurrentModeId; mode != s.mode {
		s.mode = mode
		out = append(out, acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: mode}})
	}
	if options := s.options(); !reflect.DeepEqual(options, s.shown) {
		s.shown = options
		out = append(out, acp.SessionUpdate{ConfigOptionUpdate: &acp.SessionConfigOptionUpdate{ConfigOptions: options}})
	}
	return out
}
