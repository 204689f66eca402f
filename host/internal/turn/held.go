package turn

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// heldText is a complete text or thought that is not in the history yet. It is recorded when a call or the end of the answer
// follows. If the stream breaks after it and the model is asked again, it is superseded: the model repeats it, and a model that
// reads a text twice tends to write it a third time.
type heldText struct {
	message llm.Message
	item    *event.Item // still open; nil: completed
}

// flush records the held texts.
func (r *recorder) flush(ctx context.Context) error {
	if len(r.held) == 0 {
		return nil
	}
	var bodies []event.Body
	var ms []llm.Message
	for _, h := range r.held {
		if h.item != nil {
			bodies = append(bodies, event.ItemCompleted{Item: *h.item})
		}
		ms = append(ms, h.message)
	}
	if err := r.write(ctx, append(bodies, event.HistoryAdded{Messages: ms})...); err != nil {
		return err
	}
	r.held = nil
	return nil
}

// flushAtEnd records the held texts at the end of a turn: people have read them, and there is no retry that would repeat them.
func (r *recorder) flushAtEnd(ctx context.Context) {
	if err := r.flush(context.WithoutCancel(ctx)); err != nil {
		r.logger.Error("text at the end of a turn not recorded", "turn", r.id, "err", err)
	}
}

// supersede discards the held texts before the model is asked again.
func (r *recorder) supersede(ctx context.Context) {
	for _, h := range r.held {
		if h.item != nil {
			h.item.Status = event.StatusSuperseded
			r.notice(context.WithoutCancel(ctx), event.ItemCompleted{Item: *h.item})
		}
	}
	r.held = nil
}
