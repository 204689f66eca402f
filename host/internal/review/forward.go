package review

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/hashicorp/go-hclog"
)

// forwarder publishes what the reviewer does. Its reasoning, calls, notices and usage are published immediately. Each message is
// withheld until another event follows, because the last message is the result, which the user gets in another form. Events about
// the reviewer's own turn, history and journal are not published.
type forwarder struct {
	to   thread.Worker
	log  hclog.Logger
	held *event.Item
}

func (f *forwarder) event(ctx context.Context, body event.Body) {
	switch b := body.(type) {
	case event.ItemStarted:
		if shown(b.Item) {
			f.release(ctx)
			f.publish(ctx, b)
		}
	case event.ItemDelta:
		if b.Delta != event.DeltaText { // of withheld messages
			f.publish(ctx, b)
		}
	case event.ItemCompleted:
		switch {
		case b.Item.Type == event.ItemAgentMessage && b.Item.Status == event.StatusCompleted:
			f.release(ctx)
			f.held = &b.Item
		case shown(b.Item):
			f.publish(ctx, b)
		}
	case event.UsageReported, event.StreamRetried, event.Notice, event.PluginEvent:
		f.publish(ctx, body)
	}
}

// shown reports whether an item is published immediately.
func shown(it event.Item) bool {
	return it.Type != event.ItemUserMessage && it.Type != event.ItemAgentMessage
}

// release publishes the withheld message.
func (f *forwarder) release(ctx context.Context) {
	if f.held == nil {
		return
	}
	begun := *f.held
	begun.Status = event.StatusInProgress
	f.publish(ctx, event.ItemStarted{Item: begun}, event.ItemCompleted{Item: *f.held})
	f.held = nil
}

// publish publishes events for people. If it fails, the review continues.
func (f *forwarder) publish(ctx context.Context, bodies ...event.Body) {
	if err := f.to.Publish(ctx, bodies...); err != nil {
		f.log.Warn("event of a reviewer not shown", "thread", f.to.Thread.ID(), "turn", f.to.Turn, "err", err)
	}
}
