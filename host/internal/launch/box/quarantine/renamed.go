package quarantine

import (
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// The user may rename a folder in which commands run, and put another in its place. The mounts of those commands go with the folder: what
// they make lies under its new name, and what lies at the old one is the user's.

// follow finds the roots that were renamed while guests work in them, and has their guests be known under the new names. moved are those,
// by the old ones. The caller holds h.mu.
func (h *Guard) follow() (moved map[string]string) {
	for root, at := range h.grounds {
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
	for _, g := range h.on(root) {
		g.Roots, g.Opened, g.Missing, g.Asked = all(g.Roots), all(g.Opened), all(g.Missing), nil
		whole := make(map[string]fspath.Identity, len(g.Whole))
		for p, id := range g.Whole {
			whole[renamed(p)] = id
		}
		g.Whole = whole
	}
	at := h.grounds[root]
	delete(h.grounds, root)
	if other := h.grounds[to]; other != nil {
		other.end()
	}
	h.grounds[to] = at
	if at.lull != nil {
		at.lull.Stop()
		at.lull = nil
	}
	named := make(map[string]string, len(at.named))
	for p, as := range at.named {
		named[renamed(p)] = renamed(as)
	}
	at.named, at.asked = named, nil
	at.kept = maps.Clone(at.kept)
	for id, p := range at.kept {
		at.kept[id] = renamed(p)
	}
	if at.mark != nil && fspath.IsDir(to) {
		at.record.Root, at.record.Named = to, named
		if m, err := h.marks.Write(at.record); err == nil { // else the old one says which folder it is
			at.mark.Remove()
			at.mark = m
		}
	}
	h.Index.Forget(root)
}
