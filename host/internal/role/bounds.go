package role

import (
	"path"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// The sandbox modes, from the narrowest.
const (
	readOnly       = "read-only"
	workspaceWrite = "workspace-write"
	fullAccess     = "full-access"
)

func rank(mode string) int {
	if mode == "" {
		mode = fullAccess
	}
	return slices.Index([]string{readOnly, workspaceWrite, fullAccess}, mode) // an unknown mode allows least
}

// Narrower returns the sandbox mode that allows less. An empty one does not limit.
func Narrower(a, b string) string {
	if rank(b) < rank(a) {
		return b
	}
	return a
}

// Meet returns the bounds that allow only what both allow.
func Meet(a, b event.Bounds) event.Bounds {
	out := event.Bounds{
		Sandbox: Narrower(a.Sandbox, b.Sandbox), NoNetwork: a.NoNetwork || b.NoNetwork,
		DenyRead: union(a.DenyRead, b.DenyRead), DenyWrite: union(a.DenyWrite, b.DenyWrite), Without: union(a.Without, b.Without),
		Samplings: a.Samplings,
	}
	if out.Samplings == 0 || b.Samplings > 0 && b.Samplings < out.Samplings {
		out.Samplings = b.Samplings
	}
	out.Tools = slices.Clone(a.Tools)
	for _, list := range b.Tools {
		if !slices.ContainsFunc(out.Tools, func(o []string) bool { return slices.Equal(o, list) }) {
			out.Tools = append(out.Tools, list)
		}
	}
	return normal(out)
}

// normal adds what bounds imply: without a sandbox, neither the network nor the writing of files can be denied.
func normal(b event.Bounds) event.Bounds {
	if b.NoNetwork || len(b.DenyWrite) > 0 {
		b.Sandbox = Narrower(b.Sandbox, workspaceWrite)
	}
	return b
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Tool is a tool by its names.
type Tool struct {
	Names []string // by which models call it
	Hooks []string // by which hooks know it
	// Plain says that the tool comes with gantry, so that its names for hooks say what it is.
	Plain bool
}

// Allows reports whether an agent with these bounds has a tool. A tool whose plugin chose its names for hooks can't become allowed by them.
func Allows(b event.Bounds, t Tool) bool {
	all := slices.Concat(t.Names, t.Hooks)
	if matches(b.Without, all) {
		return false
	}
	names := t.Names
	if t.Plain {
		names = all
	}
	for _, list := range b.Tools {
		if !matches(list, names) {
			return false
		}
	}
	return true
}

func matches(patterns, names []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			ok, err := path.Match(p, n)
			return ok && err == nil
		})
	})
}

// Confines reports whether bounds limit the sandbox, so that no approval leads out of it.
func Confines(b event.Bounds) bool { return b.Sandbox != "" && b.Sandbox != fullAccess }

// toolNames reads names of tools that may name what a call may do in parentheses, as in "Bash(git:*)". parts lists those.
func toolNames(list []string) (names, parts []string) {
	for _, n := range list {
		if n = strings.TrimSpace(n); n == "" {
			continue
		}
		name, _, part := strings.Cut(n, "(")
		if part {
			parts = append(parts, n)
		}
		names = append(names, name)
	}
	return names, parts
}
