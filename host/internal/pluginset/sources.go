package pluginset

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// requiredSources returns the sources that the first turn of a thread needs.
func requiredSources(set contract.ToolSet) []contract.Source {
	return slices.DeleteFunc(slices.Clone(set.Sources), func(s contract.Source) bool { return !s.Required })
}

// failed marks sources as failed because their plugin did not start.
func failed(sources []contract.Source, err error) []contract.Source {
	text, _ := hint.Split(err)
	for i := range sources {
		sources[i].State, sources[i].Message = contract.SourceFailed, text
	}
	return sources
}

// FailSources fails the required sources of a tool plugin that crashed while they were starting, so that no turn waits for them.
// The next turn starts the plugin again. It does nothing if the plugin has not crashed.
func (s *Set) FailSources(label string) {
	if _, ok := s.backends[label]; !ok {
		return
	}
	st := s.plugins.Slot(label).State()
	if st.Mode != plugin.ModeCrashed && st.Mode != plugin.ModeBroken {
		return
	}
	s.cataloguing.Lock()
	defer s.cataloguing.Unlock()
	if !s.registry.FailSources(label, st.Message) {
		return
	}
	s.live[label] = false
	s.mu.Lock()
	s.mu.loaded[label] = false
	s.mu.Unlock()
	s.cfg.OnSources()
}

// Sources returns the state of each source of tools, as an event.
func (s *Set) Sources() []event.SourceChanged {
	var out []event.SourceChanged
	for _, src := range s.registry.Sources() {
		out = append(out, event.SourceChanged{
			Plugin: src.Plugin, Source: src.Name, State: src.State.String(), Title: src.Title, Message: s.cfg.Redactor.Text(src.Message), Required: src.Required,
			Prompts: prompts(src.Prompts), Resources: src.Resources,
		})
	}
	return out
}

func prompts(list []contract.SourcePrompt) (out []event.SourcePrompt) {
	for _, p := range list {
		e := event.SourcePrompt{Name: p.Name, Title: p.Title, Description: p.Description}
		for _, a := range p.Arguments {
			e.Arguments = append(e.Arguments, event.SourcePromptArgument(a))
		}
		out = append(out, e)
	}
	return out
}

// WhereSource returns the position of the block of a source, which is the nested block with its name in its plugin's block b; empty: there
// is none. b may be nil.
func WhereSource(b *config.PluginBlock, source string) string {
	if b != nil {
		if r, ok := b.Labelled(source); ok {
			return r.String()
		}
	}
	return ""
}

// lostSources returns warnings about sources whose tools, or some of them, are missing, by plugin. A required source that is not ready
// fails the first turn of a thread with a better message, so it is left out unless required is set.
func (s *Set) lostSources(required bool) map[string][]contract.Diagnostic {
	out := map[string][]contract.Diagnostic{}
	for _, src := range s.registry.Sources() {
		text := ""
		switch {
		case src.State == contract.SourceReady && src.Message != "":
			text = fmt.Sprintf("the source %q is ready, with a problem", src.Name)
		case src.Required && !required:
		case src.State == contract.SourceFailed:
			text = fmt.Sprintf("the source %q has failed; its tools are missing", src.Name)
		case src.State == contract.SourceNeedsLogin:
			text = fmt.Sprintf("the source %q needs a login; its tools are missing", src.Name)
		}
		if text == "" {
			continue
		}
		if where := WhereSource(s.Block(src.Plugin), src.Name); where != "" {
			text = where + ": " + text
		}
		out[src.Plugin] = append(out[src.Plugin], contract.Diagnostic{Severity: contract.SeverityWarning, Summary: text, Detail: src.Message})
	}
	return out
}
