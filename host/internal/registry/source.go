package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/visible"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Source is a source of tools and the plugin that it belongs to.
type Source struct {
	Plugin string
	contract.Source
}

// ready reports whether the source's tools are available.
func (s Source) ready() bool {
	return s.State == contract.SourceReady || s.State == contract.SourceUnknown
}

// Sources lists the sources of all plugins, in the order of the plugins.
func (r *Registry) Sources() []Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sourcesLocked()
}

func (r *Registry) sourcesLocked() (out []Source) {
	for _, plugin := range r.mu.order {
		for _, s := range r.mu.sets[plugin].Sources {
			out = append(out, Source{plugin, s})
		}
	}
	return out
}

// Limits of what sources say of themselves, in bytes.
const (
	maxSourceTitle       = 256
	maxSourceDescription = 512 << 10 // codex-compatible
)

// presented returns a source whose texts are bounded and have no characters that could hide or reorder others.
func presented(s contract.Source) contract.Source {
	s.Title, s.Description = visible.Text(s.Title, maxSourceTitle), visible.Text(s.Description, maxSourceDescription)
	return s
}

// Said is what the source of a namespace's tools says of itself. It is untrusted.
type Said struct {
	Plugin, Source string
	Description    string
}

// Said returns what sources say of themselves, by namespace. If the tools of a namespace have several sources, the first one that has a
// description counts. The map is shared.
func (s *Snapshot) Said() map[string]Said { return s.said }

// Namespaces returns the descriptions of namespaces for a model whose format has them; nil: it has none.
func (s *Snapshot) Namespaces(row llm.ModelRow) map[string]string {
	if !HasNamespaces(row) {
		return nil
	}
	var out map[string]string
	for namespace, said := range s.said {
		if out == nil {
			out = map[string]string{}
		}
		out[namespace] = fmt.Sprintf("The tools of %s. What follows is what %q says of them:\n%s", namespace, said.Source, said.Description)
	}
	return out
}

// HasNamespaces reports whether a model is sent descriptions of namespaces with the tools.
func HasNamespaces(row llm.ModelRow) bool {
	return slices.Contains(row.ToolKinds, "namespace") || slices.Contains(row.ToolKinds, "search")
}

// FailSources marks the required sources of a plugin that are starting as failed, since the plugin has ended. It reports
// whether there were any.
func (r *Registry) FailSources(plugin, message string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := r.mu.sets[plugin]
	set.Sources = slices.Clone(set.Sources)
	found := false
	for i, s := range set.Sources {
		if s.Required && s.State == contract.SourceStarting {
			set.Sources[i].State, set.Sources[i].Message = contract.SourceFailed, message
			found = true
		}
	}
	if found {
		r.mu.sets[plugin] = set
		close(r.mu.changed)
		r.mu.changed = make(chan struct{})
	}
	return found
}

// SourceError says that a required source is not ready.
type SourceError struct {
	Source Source
	Waited time.Duration // 0: it will not become ready
}

// Error implements error.
func (e *SourceError) Error() string {
	text := fmt.Sprintf("the source %q of plugin %q is required and ", e.Source.Name, e.Source.Plugin)
	switch {
	case e.Waited > 0:
		text += fmt.Sprintf("is not ready after %v", e.Waited)
	case e.Source.State == contract.SourceNeedsLogin:
		text += "needs a login"
	default:
		text += "has failed"
	}
	if e.Source.Message != "" {
		text += ": " + e.Source.Message
	}
	return text
}

// NextStep implements hint.Stepper.
func (e *SourceError) NextStep() string {
	return fmt.Sprintf("see what it needs with `gantry plugin inspect %s`, or make it optional in the plugin's block", e.Source.Plugin)
}

// AwaitSources returns when every required source is ready. It returns a [*SourceError] if one has failed, needs a login, or is
// still starting after bound, and the cause of ctx if that ends first.
func (r *Registry) AwaitSources(ctx context.Context, bound time.Duration) error {
	var late <-chan time.Time
	for {
		r.mu.Lock()
		required, changed := r.sourcesLocked(), r.mu.changed
		r.mu.Unlock()
		required = slices.DeleteFunc(required, func(s Source) bool { return !s.Required || s.ready() })
		if len(required) == 0 {
			return nil
		}
		for _, s := range required {
			if s.State != contract.SourceStarting {
				return &SourceError{Source: s}
			}
		}
		if late == nil {
			timer := time.NewTimer(bound)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-late:
			return &SourceError{Source: required[0], Waited: bound}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
