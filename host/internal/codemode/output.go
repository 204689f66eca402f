package codemode

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// defaultTokens is the budget of an answer without one of its own; codex-compatible.
const defaultTokens = 10_000

// The states of a cell as answers name them; codex-compatible.
const (
	stateCompleted  = "Script completed"
	stateFailed     = "Script failed"
	stateTerminated = "Script terminated"
)

// stateRunning names a cell that goes on.
func stateRunning(id string) string { return "Script running with cell ID " + id }

// answer is a result of exec or wait.
type answer struct {
	state   string
	took    time.Duration // since the call began
	items   []contract.Part
	problem string // the script's error; "": none
	notes   []string
	tokens  int64 // budget of the items
}

// result has the form that codex gives it: texts alone are shortened as one; otherwise each is, in order, until the budget is used up.
func (a answer) result() *contract.Result {
	head := fmt.Sprintf("%s\nWall time %.1f seconds\nOutput:\n", a.state, a.took.Seconds())
	r := &contract.Result{IsError: a.state == stateFailed, Parts: []contract.Part{&contract.TextPart{Text: head, Fit: contract.FitVerbatim}}}
	items := a.items
	if a.problem != "" {
		items = append(items, &contract.TextPart{Text: "Script error:\n" + a.problem})
	}
	r.Parts = append(r.Parts, fit(items, a.tokens)...)
	for _, note := range a.notes {
		r.Parts = append(r.Parts, &contract.TextPart{Audience: contract.AudienceModel, Text: "\n" + note, Fit: contract.FitVerbatim})
	}
	return r
}

// fit bounds the items to tokens; the pipeline shortens them.
func fit(items []contract.Part, tokens int64) []contract.Part {
	var merged strings.Builder
	for _, item := range items {
		text, ok := item.(*contract.TextPart)
		if !ok {
			return fitEach(items, tokens)
		}
		if merged.Len() > 0 {
			merged.WriteByte('\n')
		}
		merged.WriteString(text.Text)
	}
	if merged.Len() == 0 {
		return nil
	}
	most := max(tokens, 0)
	return []contract.Part{&contract.TextPart{Text: merged.String(), Fit: contract.FitTruncatable, MaxTokens: &most, AnnounceTruncation: true}}
}

// fitEach bounds items of which some are media: images cost nothing, and audio is left out if its tokens exceed what is left.
func fitEach(items []contract.Part, tokens int64) (out []contract.Part) {
	omitted, unheard, text := 0, 0, false
	for _, item := range items {
		t, ok := item.(*contract.TextPart)
		if m, media := item.(*contract.MediaPart); media && strings.HasPrefix(m.MediaType, "audio/") {
			cost := history.AudioTokens(int64(len(m.Data)))
			if cost > tokens {
				unheard++
				continue
			}
			tokens -= cost
		}
		if !ok {
			out, text = append(out, item), false
			continue
		}
		if tokens <= 0 && t.Text != "" {
			omitted++
			continue
		}
		most := tokens
		words := t.Text
		if text { // the pipeline joins adjacent texts
			words = "\n" + words
		}
		out, text = append(out, &contract.TextPart{Text: words, Fit: contract.FitTruncatable, MaxTokens: &most}), true
		tokens -= history.Tokens(int64(len(t.Text)))
	}
	if omitted > 0 {
		out = append(out, &contract.TextPart{Text: fmt.Sprintf("[omitted %d text items ...]", omitted), Fit: contract.FitBounded})
	}
	if unheard > 0 {
		out = append(out, &contract.TextPart{Text: fmt.Sprintf("[omitted %d audio items ...]", unheard), Fit: contract.FitBounded})
	}
	return out
}
