package guardian

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// action is the call that the reviewer judges, as a JSON object.
type action struct {
	Tool          string          `json:"tool"`
	Chain         []string        `json:"call_chain,omitempty"` // of a nested call
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	Text          string          `json:"text,omitempty"` // the input of a freeform tool
	Cwd           string          `json:"cwd"`
	Sandbox       string          `json:"sandbox"`
	Unboxed       bool            `json:"without_sandbox,omitempty"`
	Retry         bool            `json:"after_sandbox_denial,omitempty"`
	Effects       []event.Effect  `json:"effects,omitempty"`
	Wanted        []event.Effect  `json:"beyond_the_sandbox,omitempty"`
	Asked         string          `json:"why_it_is_asked,omitempty"`
	Justification string          `json:"agents_justification,omitempty"`
}

// actionOf renders a call. It never shortens what would run: a call that is too long is an error, which denies it. The agent's
// justification is not part of what would run.
func actionOf(r orchestrate.ReviewRequest) (json.RawMessage, error) {
	a := action{
		Tool: r.Tool, Chain: r.Question.Chain, Cwd: r.Cwd, Sandbox: r.Sandbox, Unboxed: r.Unsandboxed, Retry: r.Retry, Effects: event.EffectsOf(r.Question.Effects), Wanted: event.EffectsOf(r.Question.Wanted),
		Asked: shorten(r.Question.Reason, maxReason), Justification: shorten(r.Question.Message, maxReason),
	}
	if r.Input.Freeform {
		a.Text = r.Input.Text
	} else {
		a.Arguments = r.Input.Arguments
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(a); err != nil {
		return nil, fmt.Errorf("the call can't be shown to the reviewer: %w", err)
	}
	if n := history.Tokens(int64(b.Len())); n > maxAction {
		return nil, fmt.Errorf("the call is too long to review: about %d tokens, and the limit is %d; split it into smaller ones", n, maxAction)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
