package history

import (
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// TruncateParts cuts the content of a tool result against one budget, in order. Text is cut where the budget ends, and counted
// in a line at the end behind it. Images and encrypted content cost nothing and stay; audio is charged by what it counts as, and left out where there
// is no room for it.
func TruncateParts(parts llm.Parts, p Policy) llm.Parts {
	unit, perToken, rest := func(s string) int64 { return Tokens(int64(len(s))) }, int64(1), p.tokenBudget()
	if p.Bytes {
		unit, perToken, rest = func(s string) int64 { return int64(len(s)) }, bytesPerToken, p.byteBudget()
	}
	out := make(llm.Parts, 0, len(parts))
	texts, audios := 0, 0
	for _, part := range parts {
		switch t := part.(type) {
		case *llm.Text:
			switch cost := unit(t.Text); {
			case cost <= rest:
				out = append(out, t)
				rest -= cost
			case rest <= 0:
				texts++
			default:
				cut := *t
				cut.Text = Truncate(t.Text, Policy{Bytes: p.Bytes, Limit: rest})
				out = append(out, &cut)
				rest = 0
			}
		case *llm.Media:
			if !isAudio(t) {
				out = append(out, t)
				continue
			}
			cost := audioTokens(t) * perToken
			if cost > rest {
				audios++
				continue
			}
			out = append(out, t)
			rest -= cost
		default:
			out = append(out, part)
		}
	}
	if texts > 0 {
		out = append(out, &llm.Text{Text: fmt.Sprintf("[omitted %d text items ...]", texts)})
	}
	if audios > 0 {
		out = append(out, &llm.Text{Text: fmt.Sprintf("[omitted %d audio items ...]", audios)})
	}
	return out
}
