package turn

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// heldText is a text, or a thought, that is whole and not in the history yet. Where a call follows it, or the end of the answer,
// it is recorded. Where the answer breaks behind it and the model is asked again, it is superseded: the model says it again, and
// reading it twice would make it say it a third time.
type heldText struct {
	message llm.Message
	item    *event.Item // open; nil: it was completed
}

// flush records what is held.
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

// keepHeld records what is held at the end of a turn: people have read it, and nobody says it again.
func (r *recorder) keepHeld(ctx context.Context) {
	if err := r.flush(context.WithoutCancel(ctx)); err != nil {
		r.logger.Error("text at the end of a turn not recorded", "turn", r.id, "err", err)
	}
}

// supersede drops what is held, since the model is asked once more.
func (r *recorder) supersede(ctx context.Context) {
	for _, h := range r.held {
		if h.item != nil {
			h.item.Status = event.StatusSuperseded
			r.notice(context.WithoutCancel(ctx), event.ItemCompleted{Item: *h.item})
		}
	}
	r.held = nil
}
