package protocol

import "slices"

// efforts are the known reasoning efforts, weakest first. Models with others list them in their row.
var efforts = [...]string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}

// EffortRank returns the index of an effort among the known ones, from 0 for "none", or -1.
func EffortRank(effort string) int { return slices.Index(efforts[:], effort) }

// NearestEffort returns the effort in offered, weakest first, that is nearest to asked: asked itself, otherwise the strongest
// weaker one, otherwise the weakest. So users do not pay for more reasoning than they asked for, unless the model has no less. It
// returns "" if the effort is unknown or nothing is offered.
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

// KnownEfforts returns the efforts to list in a message: the model's own, otherwise all.
func (m *Model) KnownEfforts() []string {
	if len(m.Efforts) > 0 {
		return m.Efforts
	}
	return efforts[:]
}
