package chat

import (
	"regexp"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// refusedNothing are the words by which services refuse an empty list of tools: OpenAI's, vLLM's, and those of validators.
var refusedNothing = regexp.MustCompile(`(?i)\btools\b.{0,40}\b(?:empty|too short|at least|minimum)\b|\[\] is too short.{0,10}\btools\b`)

// WithoutEmptyTools is for a service of which nobody knows which way it has: it refused a request for its empty list of
// tools, which others demand. ok is false when that is not so; else the copy of r says nothing of tools.
func WithoutEmptyTools(r *protocol.Request, err *llm.Error) (_ *protocol.Request, ok bool) {
	if err == nil || err.Code != llm.ErrInvalidRequest || !refusedNothing.MatchString(err.Message) {
		return nil, false
	}
	if len(r.Tools) > 0 || r.Model.Compat.NoEmptyTools {
		return nil, false
	}
	out := *r
	out.Model.Compat.NoEmptyTools = true
	return &out, true
}
