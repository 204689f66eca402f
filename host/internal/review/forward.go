package review

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/hashicorp/go-hclog"
)

// forwarder shows the user what the reviewer does. Its thoughts, calls, notices and costs are shown as they come. Of its
// messages each is held back until something follows: the last one is the result, which the user reads in another form. What is
// about the reviewer's thread itself, its turn, history and journal, stays there.
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
		if b.Delta != event.DeltaText { // of messages
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

// shown tells whether people see an item as it comes.
func shown(it event.Item) bool {
	return it.Type != event.ItemUserMessage && it.Type != event.ItemAgentMessage
}

// release shows the message that was held back.
func (f *forwarder) release(ctx context.Context) {
	if f.held == nil {
		return
	}
	begun := *f.held
	begun.Status = event.StatusInProgress
	f.publish(ctx, event.ItemStarted{Item: begun}, event.ItemCompleted{Item: *f.held})
	f.held = nil
}

// publish is for people: the review goes on where the log takes nothing.
func (f *forwarder) publish(ctx context.Context, bodies ...event.Body) {
	if err := f.to.Publish(ctx, bodies...); err != nil {
		f.log.Warn("event of a reviewer not shown", "thread", f.to.Thread.ID(), "turn", f.to.Turn, "err", err)
	}
}
