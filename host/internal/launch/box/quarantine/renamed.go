package quarantine

import (
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// The user may rename a folder in which commands are running, and put another in its place. The mounts of the commands follow the
// folder: what they create is under its new name, and what is at the old path belongs to the user.

// followRenames finds the roots that were renamed while commands are running in them, and updates their state. It returns the new
// paths by the old ones. The caller holds h.mu.
func (h *Guard) followRenames() (moved map[string]string) {
	for root, at := range h.states {
		if at.known == nil || at.anchor == nil || at.anchor.is(root) {
			continue
		}
		to := at.anchor.path()
		if to == root {
			continue // it was renamed back
		}
		if moved == nil {
			moved = map[string]string{}
		}
		moved[root] = to
	}
	for root, to := range moved {
		h.rename(root, to)
	}
	return moved
}

func (h *Guard) rename(root, to string) {
	renamed := func(path string) string {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			return to + rest
		}
		return path
	}
	all := func(list []string) []string {
		out := slices.Clone(list)
		for i, p := range out {
			out[i] = renamed(p)
		}
		return out
	}
	for _, g := range h.commandsIn(root) {
		g.Roots, g.Opened, g.Missing, g.GrantRoots = all(g.Roots), all(g.Opened), all(g.Missing), nil
		whole := make(map[string]fspath.Identity, len(g.Sealed))
		for p, id := range g.Sealed {
			whole[renamed(p)] = id
		}
		g.Sealed = whole
	}
	at := h.states[root]
	delete(h.states, root)
	if other := h.states[to]; other != nil {
		other.end()
	}
	h.states[to] = at
	if at.refreshTimer != nil {
		at.refreshTimer.Stop()
		at.refreshTimer = nil
	}
	named := make(map[string]string, len(at.named))
	for p, as := range at.named {
		named[renamed(p)] = renamed(as)
	}
	at.named, at.grantRoots = named, nil
	at.denied = maps.Clone(at.denied)
	for id, p := range at.denied {
		at.denied[id] = renamed(p)
	}
	if at.lock != nil && fspath.IsDir(to) {
		at.record.Root, at.record.Named = to, named
		if m, err := h.records.Write(at.record); err == nil { // otherwise the old record identifies the folder
			at.lock.Remove()
			at.lock = m
		}
	}
	h.Index.Forget(root)
}
