package turn

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// finish says what the end of an answer means where it is not the model's own: a filter ends the turn with an error, a limit
// is told to people, and an answer that the vendor could not make sense of itself is asked for again. What was whole is kept.
func (a *answer) finish(ctx context.Context, ev llm.StepFinish) error {
	why := ""
	if ev.RawReason != "" {
		why = fmt.Sprintf(" (%s)", ev.RawReason)
	}
	switch ev.Reason {
	case llm.FinishContentFilter:
		return &llm.Error{
			Code: llm.ErrContentPolicy, Message: fmt.Sprintf("provider %q: the vendor stopped the answer under its content policy%s", a.Provider, why),
			Next: "put it in other words, or use another model",
		}
	case llm.FinishError:
		return &llm.Error{
			Code: llm.ErrInvalidOutput, Retryable: true, Message: fmt.Sprintf("provider %q: the vendor could not finish the answer%s", a.Provider, why),
		}
	case llm.FinishLength:
		a.notice(ctx, event.Notice{
			Level: "warning", Text: fmt.Sprintf("the answer was cut off at the limit of its length%s", why),
			Next: "Say \"go on\", or raise max_output_tokens in the model's block.",
		})
	}
	return nil
}
