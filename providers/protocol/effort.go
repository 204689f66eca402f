package protocol

import "slices"

// efforts are the known degrees of thinking, weakest first. Those who offer others name them in their model's row.
var efforts = [...]string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}

// EffortRank is the place of an effort among the known ones, from 0 for "none"; -1: it is not known.
func EffortRank(effort string) int { return slices.Index(efforts[:], effort) }

// NearestEffort is the effort among those offered, weakest first, that comes nearest to what was asked for: itself, or the
// strongest of the weaker ones, or the weakest there is. Nobody pays for more thinking than was asked for, unless the model
// has no less. Empty when the effort is not known or nothing is offered.
func NearestEffort(asked string, offered []string) string {
	if slices.Contains(offered, asked) {
		return asked
	}
	want := EffortRank(asked)
	if want < 0 || len(offered) == 0 {
		return ""
	}
	near := offered[0]
	for _, e := range offered {
		if rank := EffortRank(e); rank >= 0 && rank < want {
			near = e
		}
	}
	return near
}

// KnownEfforts are the efforts that a message lists: the model's own, or else all that there are.
func (m *Model) KnownEfforts() []string {
	if len(m.Efforts) > 0 {
		return m.Efforts
	}
	return efforts[:]
}
