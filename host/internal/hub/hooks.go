package hub

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hookconfig"
)

// Hook describes a hook of a workspace as it is now.
type Hook struct {
	Key     string // identifies the hook: the place of its definition
	Event   string // "PreToolUse", ...
	Matcher string // empty: everything
	Kind    string // "command", "prompt" or "agent"
	Command string // of the kind "command"
	Timeout time.Duration
	Async   bool
	Status  string // shown while it runs
	Source  string // file with the definition; empty: the command line
	Scope   string // "managed", "user" or "project"
	Digest  string // of what the user consents to; empty: it can't be computed, and Problem says why
	Trust   string // "managed", "trusted", "modified" or "untrusted"
	Problem string
}

// HookProblem is a definition that is left out.
type HookProblem struct{ Source, Text string }

// Hooks returns the hooks that threads of a workspace have, in the order in which they run. No host is opened.
func (h *Hub) Hooks(ctx context.Context, w Workspace) (found []Hook, problems []HookProblem, err error) {
	cfg, err := h.cfg.Load(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	agreed, err := hookconfig.Agreed(h.cfg.Home)
	if err != nil {
		return nil, nil, err
	}
	definitions, ps := hookconfig.Load(cfg)
	for _, p := range ps {
		if !p.Foreign {
			problems = append(problems, HookProblem{p.Source, p.Error()})
		}
	}
	for _, d := range definitions {
		f := Hook{
			Key: d.Key, Event: string(d.Event), Matcher: d.Matcher, Kind: d.Kind(), Command: d.Command, Timeout: d.TimeLimit(), Async: d.Async,
			Status: d.Status, Source: d.Source, Scope: d.Scope.String(), Trust: d.Trust(agreed, w.Dir, h.cfg.Environ).String(),
		}
		if f.Digest, _, err = d.Digest(w.Dir, h.cfg.Environ); err != nil {
			text, next := hint.Split(err)
			if gap, ok := errors.AsType[*hook.GapError](err); ok {
				text, next = gap.Gap.String(), gap.Gap.Next
			}
			f.Problem = hint.Line(text, next)
		}
		found = append(found, f)
	}
	return found, problems, nil
}
