package box

import (
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// changedLater returns the files that are new or have changed.
func changedLater(before, after map[string]fspath.Identity) []Moved {
	var out []Moved
	for path, id := range after {
		if was, ok := before[path]; !ok || was != id {
			out = append(out, Moved{From: path, Why: "other programs execute what it says"})
		}
	}
	slices.SortFunc(out, func(a, b Moved) int { return strings.Compare(a.From, b.From) })
	return out
}
