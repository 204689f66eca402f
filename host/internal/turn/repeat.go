package turn

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Limits for repeating the same call with the same result. The model is told at the third repetition and each time the number has
// doubled since; a model that does not listen is stopped before it has spent a night on it.
const (
	firstHint  = 3
	maxRepeats = 48
	minWait    = 5 * time.Second // a call that took longer was waiting for something
)

// repeats counts how often the last call was repeated in a row.
type repeats struct {
	last [sha256.Size]byte
	n    int
	hint int // the number at which the model is told next
}

// note counts a call with its answer. hint is for the model; loop ends the turn.
func (r *repeats) note(c *llm.ToolCall, a orchestrate.Answer) (hint []string, loop *event.Problem) {
	if a.Duration > minWait || a.Raw != nil && a.Raw.SessionID != "" || a.Outcome == event.OutcomeAborted {
		*r = repeats{} // polling is not a loop
		return nil, nil
	}
	is := fingerprint(c, a.Result)
	if r.n == 0 || is != r.last {
		*r = repeats{last: is, n: 1, hint: firstHint}
		return nil, nil
	}
	r.n++
	if r.n >= maxRepeats {
		return nil, &event.Problem{
			Code: "loop", Message: fmt.Sprintf("the model called %s %d times in a row, with the same arguments and the same result", c.Name, r.n),
			Next: "say how to continue",
		}
	}
	if r.n < r.hint {
		return nil, nil
	}
	r.hint *= 2
	return []string{fmt.Sprintf("You have made this call %d times in a row, with the same arguments and the same result. Making it again will not "+
		"change that: do something else, or tell the user what keeps you.", r.n)}, nil
}

// fingerprint identifies a call with its result. It ignores words with digits in the result, because times and ids differ each
// time.
func fingerprint(c *llm.ToolCall, r *llm.ToolResult) (sum [sha256.Size]byte) {
	b := sha256.New()
	content, err := json.Marshal(llm.Message{Role: llm.RoleTool, Parts: r.Content})
	if err != nil { // metadata that is not valid JSON: use the text only
		content = []byte(llm.Message{Parts: r.Content}.Text())
	}
	fmt.Fprintf(b, "%s\x00%s\x00%s\x00", c.Namespace, c.Name, c.Input)
	for word := range strings.FieldsFuncSeq(string(content), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !strings.ContainsFunc(word, unicode.IsDigit) {
			fmt.Fprintf(b, "%s ", word)
		}
	}
	b.Sum(sum[:0])
	return sum
}
