package gemini

import (
	"regexp"
	"strconv"
	"strings"
)

// generation is what a model's name says about the rules that its requests follow.
type generation struct {
	gemini bool // one of the Gemini models, not another one behind the same format
	major  int
	pro    bool
}

// newest stands for models whose name has no number, such as "gemini-flash-latest": they move on, so they are taken for
// the generation whose rules are the strictest.
const newest = 3

var generationNumber = regexp.MustCompile(`^gemini-(?:[a-z]+-)*?(\d{1,2})(?:[.-]|$)`)

// generationOf reads a model's id, with or without the collection it is in.
func generationOf(id string) generation {
	id = strings.ToLower(id[strings.LastIndexByte(id, '/')+1:])
	switch {
	case !strings.HasPrefix(id, "gemini-"):
		return generation{}
	case id == "gemini-pro", id == "gemini-pro-vision":
		return generation{gemini: true, major: 1}
	case strings.HasPrefix(id, "gemini-robotics-er-1.5"): // counts its own versions; this one is a 2.5
		return generation{gemini: true, major: 2}
	case strings.HasPrefix(id, "gemini-robotics-"):
		return generation{gemini: true, major: newest}
	}
	g := generation{gemini: true, major: newest, pro: strings.Contains(id, "-pro")}
	if m := generationNumber.FindStringSubmatch(id); m != nil {
		g.major, _ = strconv.Atoi(m[1]) // one or two digits
	}
	return g
}

// Mixes reports whether a model takes functions beside hosted tools.
func Mixes(model string) bool { return generationOf(model).mixes() }

// callIDs reports whether calls and their results are matched by id. Before, they were by name and order, and an id is
// an unknown field.
func (g generation) callIDs() bool { return !g.gemini || g.major >= 3 }

// signedCalls reports whether a call in the history is refused when its batch carries no thought signature.
func (g generation) signedCalls() bool { return g.gemini && g.major >= 3 }

// nestedMedia reports whether a result may hold media.
func (g generation) nestedMedia() bool { return g.gemini && g.major >= 3 }

// mixes reports whether functions may stand beside hosted tools and beside an output schema.
func (g generation) mixes() bool { return !g.gemini || g.major >= 3 }

// budgets reports whether thinking is bounded by a number of tokens and not by a level.
func (g generation) budgets() bool { return g.gemini && g.major < 3 }

// alwaysThinks reports whether a budget of 0 is refused.
func (g generation) alwaysThinks() bool { return g.pro }
