package gemini

import (
	"regexp"
	"strconv"
	"strings"
)

// generation describes the rules for requests that follow from a model's name.
type generation struct {
	gemini bool // a Gemini model, not another one with the same format
	major  int
	pro    bool
}

// newest is assumed for models without a number in their name, such as "gemini-flash-latest": they change, so the strictest
// generation's rules apply.
const newest = 3

var generationNumber = regexp.MustCompile(`^gemini-(?:[a-z]+-)*?(\d{1,2})(?:[.-]|$)`)

// generationOf parses a model's ID, with or without its collection.
func generationOf(id string) generation {
	id = strings.ToLower(id[strings.LastIndexByte(id, '/')+1:])
	switch {
	case !strings.HasPrefix(id, "gemini-"):
		return generation{}
	case id == "gemini-pro", id == "gemini-pro-vision":
		return generation{gemini: true, major: 1}
	case strings.HasPrefix(id, "gemini-robotics-er-1.5"): // has its own version numbers; this one is based on 2.5
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

// Mixes reports whether a model accepts functions together with hosted tools.
func Mixes(model string) bool { return generationOf(model).mixes() }

// callIDs reports whether results refer to calls by ID. Earlier models match them by name and order, and an ID is an unknown
// field.
func (g generation) callIDs() bool { return !g.gemini || g.major >= 3 }

// signedCalls reports whether calls in the history are rejected if their batch has no thought signature.
func (g generation) signedCalls() bool { return g.gemini && g.major >= 3 }

// nestedMedia reports whether a result may contain media.
func (g generation) nestedMedia() bool { return g.gemini && g.major >= 3 }

// mixes reports whether functions can be combined with hosted tools and an output schema.
func (g generation) mixes() bool { return !g.gemini || g.major >= 3 }

// budgets reports whether thinking is limited by tokens rather than a level.
func (g generation) budgets() bool { return g.gemini && g.major < 3 }

// alwaysThinks reports whether a budget of 0 is rejected.
func (g generation) alwaysThinks() bool { return g.pro }
