package history

import (
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// TruncateParts truncates the content of a tool result to one limit, in order. The text at which the limit is reached is cut, and
// the texts after it are left out and counted in a last line. Images and encrypted content are kept and cost nothing. Audio costs
// its estimated tokens and is left out if they exceed what is left.
func TruncateParts(parts llm.Parts, p Policy) llm.Parts {
	unit, perToken, rest := func(s string) int64 { return Tokens(int64(len(s))) }, int64(1), p.TokenBudget()
	if p.Bytes {
		unit, perToken, rest = func(s string) int64 { return int64(len(s)) }, bytesPerToken, p.ByteBudget()
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
