package history

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// bytesPerToken is the approximate size of a token in UTF-8; codex-compatible.
const bytesPerToken = 4

// Policy limits the output of a tool that the model sees: Limit is in tokens, or in bytes. The zero value allows nothing.
type Policy struct {
	Bytes bool
	Limit int64
}

// defaultPolicy applies to models without a limit of their own; codex-compatible.
var defaultPolicy = Policy{Limit: 10_000}

// PolicyOf returns the policy of a model row.
func PolicyOf(row llm.ModelRow) Policy {
	p := Policy{Bytes: row.TruncationMode == "bytes", Limit: row.TruncationLimit}
	if p.Limit <= 0 {
		p.Limit = defaultPolicy.Limit
	}
	return p
}

// ByteBudget returns the limit in bytes.
func (p Policy) ByteBudget() int64 {
	if p.Bytes {
		return max(p.Limit, 0)
	}
	if p.Limit > math.MaxInt64/bytesPerToken {
		return math.MaxInt64
	}
	return max(p.Limit, 0) * bytesPerToken
}

// TokenBudget returns the limit in tokens.
func (p Policy) TokenBudget() int64 {
	if p.Bytes {
		return Tokens(max(p.Limit, 0))
	}
	return max(p.Limit, 0)
}

// Scale multiplies the limit and rounds up.
func (p Policy) Scale(f float64) Policy {
	p.Limit = int64(math.Ceil(float64(p.Limit) * f))
	return p
}

// Less lowers the limit by n bytes and rounds down.
func (p Policy) Less(n int64) Policy {
	if !p.Bytes {
		n = Tokens(n)
	}
	p.Limit = max(p.Limit-n, 0)
	return p
}

// AtMostTokens lowers the limit to n tokens, in the policy's own unit.
func (p Policy) AtMostTokens(n int64) Policy {
	n = max(n, 0)
	if p.Bytes {
		p.Limit = min(p.Limit, min(n, math.MaxInt64/bytesPerToken)*bytesPerToken)
	} else {
		p.Limit = min(p.Limit, n)
	}
	return p
}

// Tokens estimates the tokens of n bytes: a quarter, rounded up.
func Tokens(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n + bytesPerToken - 1) / bytesPerToken
}

// Truncate cuts the middle out of s if it is longer than the policy allows, at character boundaries, and puts a marker with the
// lost amount in its place. Truncated text is not truncated again by the same policy; under a smaller one its marker becomes part
// of the new one, which states the total loss.
func Truncate(s string, p Policy) string {
	budget := p.ByteBudget()
	if int64(len(s)) <= budget {
		return s
	}
	cuts := cutsIn(s)
	for _, c := range cuts {
		if int64(len(s)-(c.end-c.start)) <= budget {
			return s
		}
	}
	prefix, suffix := split(s, budget/2, budget-budget/2)
	var before, said int64 // lost in cuts within the removed part, and the bytes of their markers
	for _, c := range cuts {
		if c.end <= len(prefix) || c.start >= len(s)-len(suffix) {
			continue
		}
		prefix, suffix = prefix[:min(len(prefix), c.start)], s[max(len(s)-len(suffix), c.end):]
		before += c.lost(p.Bytes)
		said += int64(c.end - c.start)
	}
	var marker string
	if p.Bytes {
		between := s[len(prefix) : len(s)-len(suffix)]
		lost := int64(utf8.RuneCountInString(between)) + before
		for _, c := range cuts {
			if c.start >= len(prefix) && c.end <= len(s)-len(suffix) {
				lost -= int64(utf8.RuneCountInString(s[c.start:c.end]))
			}
		}
		marker = fmt.Sprintf("…%d chars truncated…", lost)
	} else {
		marker = fmt.Sprintf("…%d tokens truncated…", Tokens(int64(len(s))-said-budget)+before)
	}
	return prefix + marker + suffix
}

// cut is a marker within a text.
type cut struct {
	start, end int
	n          int64
	chars      bool
}

// lost returns what a cut removed, in characters or in tokens.
func (c cut) lost(chars bool) int64 {
	switch {
	case c.chars == chars:
		return c.n
	case chars:
		return c.n * bytesPerToken
	}
	return Tokens(c.n)
}

var cutMarker = regexp.MustCompile(`…(\d{1,12}) (chars|tokens) truncated…`)

func cutsIn(s string) []cut {
	if !strings.Contains(s, " truncated…") {
		return nil
	}
	var out []cut
	for _, m := range cutMarker.FindAllStringSubmatchIndex(s, -1) {
		n, err := strconv.ParseInt(s[m[2]:m[3]], 10, 64)
		if err != nil {
			continue // can't happen: the pattern limits the number
		}
		out = append(out, cut{m[0], m[1], n, s[m[4]:m[5]] == "chars"})
	}
	return out
}

// split returns the longest whole-character prefix of at most left bytes and a suffix that starts at the first
// character boundary at or after len(s)-right, never before the prefix's end.
func split(s string, left, right int64) (prefix, suffix string) {
	end := int(min(left, int64(len(s))))
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	start := int(max(int64(len(s))-right, int64(end)))
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[:end], s[start:]
}

// Loss describes what an output has lost.
type Loss struct {
	Total    int64 // bytes of the output before anything was dropped; 0: the length of the text
	Omitted  int64 // bytes that were dropped from its middle before
	Announce bool  // begin truncated text with the original token count and the number of lines
}

// Fit truncates s to p. If room, the limit of the whole answer, is less than what p would leave plus announcement and marker, the
// text gets what is left of room, so that the answer is never truncated a second time.
func Fit(s string, p, room Policy, loss Loss) string {
	if int64(len(s)) <= min(p.ByteBudget(), room.ByteBudget()) {
		return s
	}
	head := ""
	if loss.Announce {
		head = announcement(s, loss)
	}
	cut := Truncate(s, p)
	if over := int64(len(head)+len(cut)) - room.ByteBudget(); over > 0 {
		marker := int64(len(cut)) - p.ByteBudget()
		left := max(room.ByteBudget()-int64(len(head))-max(marker, 0), 0)
		if p.Bytes {
			p.Limit = min(p.Limit, left)
		} else {
			p.Limit = min(p.Limit, left/bytesPerToken)
		}
		cut = Truncate(s, p)
	}
	return head + cut
}

// announcement introduces truncated output. It distinguishes what was dropped before from what does not fit the model's limit.
func announcement(s string, loss Loss) string {
	total := loss.Total
	if total <= 0 {
		total = int64(len(s))
	}
	head := fmt.Sprintf("Warning: truncated output (original token count: %d)\n", Tokens(total))
	if loss.Omitted > 0 {
		return head + fmt.Sprintf("... %d bytes omitted ...\n\n", loss.Omitted)
	}
	return head + fmt.Sprintf("Total output lines: %d\n\n", lineCount(s))
}

func lineCount(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
