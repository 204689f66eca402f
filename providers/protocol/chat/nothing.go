package chat

import (
	"regexp"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// refusedNothing matches messages of services that reject an empty list of tools: OpenAI, vLLM, and validators.
var refusedNothing = regexp.MustCompile(`(?i)\btools\b.{0,40}\b(?:empty|too short|at least|minimum)\b|\[\] is too short.{0,10}\btools\b`)

// WithoutEmptyTools is for services of unknown behaviour: some reject an empty list of tools, others require it. If err is such a
// rejection, it returns a copy of r without the list; otherwise ok is false.
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
