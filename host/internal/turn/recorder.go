package turn

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// recorder writes a turn's events and messages into the log and the history. It belongs to the turn's goroutine.
type recorder struct {
	id          event.TurnID
	log         Log
	history     *history.History
	logger      hclog.Logger
	held        []heldText
	last        uint64 // sequence number of the last event written
	uncommitted uint64 // sequence number of the last input that may not be durable yet; 0: none
	commits     sync.WaitGroup
}

// write publishes bodies together, and appends the messages of an [event.HistoryAdded] among them to the history. A log that
// refuses them leaves the history as it is.
func (r *recorder) write(ctx context.Context, bodies ...event.Body) error {
	seq, err := r.log.Publish(ctx, r.id, bodies...)
	if err != nil {
		return err
	}
	r.last = seq
	for _, b := range bodies {
		if added, ok := b.(event.HistoryAdded); ok {
			r.history.Append(added.Messages...)
		}
	}
	return nil
}

// record writes messages.
func (r *recorder) record(ctx context.Context, ms ...llm.Message) error {
	if len(ms) == 0 {
		return nil
	}
	return r.write(ctx, event.HistoryAdded{Messages: ms})
}

// tell writes what hooks and other participants have to say to the model.
func (r *recorder) tell(ctx context.Context, texts ...string) error {
	var ms []llm.Message
	for _, text := range texts {
		ms = append(ms, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: text}}})
	}
	return r.record(ctx, ms...)
}

// notice publishes what is for people only; the log refusing it is not the turn's end.
func (r *recorder) notice(ctx context.Context, body event.Body) {
	if _, err := r.log.Publish(ctx, r.id, body); err != nil {
		r.logger.Warn("event not published", "turn", r.id, "err", err)
	}
}

// commit begins to make durable what the user said since the last time, and returns what waits for it. The request may be
// built meanwhile, but must not go out before: a task that the model has seen is not lost, whatever ends the host.
//
// A log that can't keep anything has said so to the user. That is no reason to leave him without an answer; calls with an
// effect have a barrier of their own, and are not started.
func (r *recorder) commit(ctx context.Context) (wait func() error) {
	seq := r.uncommitted
	r.uncommitted = 0
	if seq == 0 {
		return func() error { return nil }
	}
	kept := make(chan error, 1)
	r.commits.Go(func() { kept <- r.log.Barrier(ctx, seq) }) // ends with the turn at the latest, which waits for it
	return func() error {
		err := <-kept
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.logger.Warn("the model is asked though what the user said is not stored", "turn", r.id, "err", err)
		return nil
	}
}
