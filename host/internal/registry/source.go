package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	maxSourcePrompts     = 256       // a number
	maxSourceArguments   = 32        // a number, of one prompt
	maxPromptDescription = 1 << 10
)

// presented returns a source whose texts are bounded and have no characters that could hide or reorder others.
func presented(s contract.Source) contract.Source {
	s.Title, s.Description = visible.Text(s.Title, maxSourceTitle), visible.Text(s.Description, maxSourceDescription)
	s.Prompts = slices.Clone(s.Prompts[:min(len(s.Prompts), maxSourcePrompts)])
	for i, p := range s.Prompts {
		p.Name, p.Title, p.Description = visible.Text(p.Name, maxSourceTitle), visible.Text(p.Title, maxSourceTitle), visible.Text(p.Description, maxPromptDescription)
		p.Arguments = slices.Clone(p.Arguments[:min(len(p.Arguments), maxSourceArguments)])
		for j, a := range p.Arguments {
			a.Name, a.Title, a.Description = visible.Text(a.Name, maxSourceTitle), visible.Text(a.Title, maxSourceTitle), visible.Text(a.Description, maxPromptDescription)
			p.Arguments[j] = a
		}
		s.Prompts[i] = p
	}
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

// SourceError says that required sources are not ready.
type SourceError struct {
	Sources []Source      // at least one
	Waited  time.Duration // how long those that are starting have been waited for
	// Where returns the position of a source's block in the configuration; "": it has none. nil: nobody knows.
	Where func(Source) string
}

// Error implements error.
func (e *SourceError) Error() string {
	var each []string
	for _, s := range e.Sources {
		text := fmt.Sprintf("the source %q of plugin %q is required and ", s.Name, s.Plugin)
		if e.Where != nil {
			if where := e.Where(s); where != "" {
				text = where + ": " + text
			}
		}
		switch s.State {
		case contract.SourceStarting:
			text += fmt.Sprintf("is not ready after %v", e.Waited)
		case contract.SourceNeedsLogin:
			text += "needs a login"
		default:
			text += "has failed"
		}
		if s.Message != "" {
			text += ": " + s.Message
		}
		each = append(each, text)
	}
	return strings.Join(each, "; ")
}

// NextStep implements hint.Stepper.
func (e *SourceError) NextStep() string {
	var commands []string
	for _, s := range e.Sources {
		if c := fmt.Sprintf("`gantry plugin inspect %s`", s.Plugin); !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
	}
	return fmt.Sprintf("see what is needed with %s, or make it optional in the plugin's block", strings.Join(commands, " and "))
}

// AwaitSource waits until a source has started or failed, or ctx ends. It returns false if the plugin has no such source.
func (r *Registry) AwaitSource(ctx context.Context, plugin, name string) (Source, bool) {
	for {
		r.mu.Lock()
		sources, changed := r.sourcesLocked(), r.mu.changed
		r.mu.Unlock()
		i := slices.IndexFunc(sources, func(s Source) bool { return s.Plugin == plugin && s.Name == name })
		if i < 0 {
			return Source{}, false
		}
		if sources[i].State != contract.SourceStarting {
			return sources[i], true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sources[i], true
		}
	}
}

// AwaitSources waits for sources that are starting: for required ones until bound has passed, and for others without tools no longer
// than grace, nor longer than grace after they began to start. late are the others that are still starting then. The error is a
// [*SourceError] with all required sources that are not ready, or the cause of ctx if that ends first.
func (r *Registry) AwaitSources(ctx context.Context, bound, grace time.Duration) (late []Source, err error) {
	began := time.Now()
	for {
		required, optional, rest, changed := r.unready(grace)
		wait := bound - time.Since(began)
		if !slices.ContainsFunc(required, func(s Source) bool { return s.State == contract.SourceStarting }) {
			if len(required) > 0 {
				return nil, &SourceError{Sources: required}
			}
			if wait = min(rest, grace-time.Since(began)); len(optional) == 0 || wait <= 0 {
				return optional, nil
			}
		} else if wait <= 0 {
			return nil, &SourceError{Sources: required, Waited: bound}
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		timer.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// unready returns the required sources that are not ready, and the others that are starting and have no tools, with the longest time
// that is left of their grace. changed is closed when any of that changes.
func (r *Registry) unready(grace time.Duration) (required, optional []Source, rest time.Duration, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sourcesLocked() {
		switch {
		case s.ready():
		case s.Required:
			required = append(required, s)
		case s.State == contract.SourceStarting && !slices.ContainsFunc(r.mu.built[s.Plugin], func(e *Entry) bool { return e.Source == s.Name }):
			optional = append(optional, s)
			rest = max(rest, grace-time.Since(r.mu.began[s.Plugin][s.Name]))
		}
	}
	return required, optional, rest, r.mu.changed
}
