package quarantine

import (
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// The user may rename a folder in which commands run, and put another in its place. The mounts of those commands go with the folder: what
// they make lies under its new name, and what lies at the old one is the user's.

// followRenames finds the roots that were renamed while guests work in them, and has their guests be known under the new names. moved are those,
// by the old ones. The caller holds h.mu.
func (h *Guard) followRenames() (moved map[string]string) {
	for root, at := range h.states {
		if at.known == nil || at.anchor == nil || at.anchor.is(root) {
			continue
		}
		to := at.anchor.path()
		if to == root {
			continue // it is back
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
		if m, err := h.records.Write(at.record); err == nil { // else the old one says which folder it is
			at.lock.Remove()
			at.lock = m
		}
	}
	h.Index.Forget(root)
}
