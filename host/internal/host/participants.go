package host

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// The types in this file take part in turns. [Host.Turn] lists them; package turn documents their methods.

// clientContext keeps the context that clients attach to their users' input.
type clientContext struct{ r *running }

// OnClientContext implements [turn.ClientContextListener].
func (c clientContext) OnClientContext(texts map[string]string) { c.r.setClientContext(texts) }

// offlineWait makes a turn wait for an unreachable model: for the configured time, or without limit while a person can interrupt
// it.
type offlineWait struct {
	h *Host
	t *thread.Thread
}

// OfflineWait implements [turn.OfflineWaiter].
func (w offlineWait) OfflineWait() time.Duration {
	switch set := w.h.opts.Config.Limits.OfflineWait; {
	case set != nil:
		return *set
	case w.t.Waiting():
		return turn.Forever
	}
	return 0
}

// commandSandbox prepares a sandbox for the command that the model is about to call.
type commandSandbox struct {
	launcher *launch.Launcher
	thread   string
	grant    func() (launch.Grant, error)
}

// OnRequest implements [turn.RequestListener].
func (c commandSandbox) OnRequest(tools *registry.Snapshot) {
	if slices.ContainsFunc(tools.Entries(), func(e *registry.Entry) bool { return isCommand(e.Descriptor) }) {
		c.launcher.PrepareSoon(c.thread, c.grant)
	}
}

// OnToolAnnounced implements [turn.ToolListener].
func (c commandSandbox) OnToolAnnounced(tools *registry.Snapshot, namespace, name string) {
	if e, ok := tools.Lookup(namespace, name); ok && isCommand(e.Descriptor) {
		c.launcher.PrepareNow(c.thread, c.grant)
	}
}

// OnEnd implements [turn.EndListener]. No command runs until the user's next input.
func (c commandSandbox) OnEnd(context.Context) []event.Body {
	c.launcher.DropPrepared(c.thread)
	return nil
}

// pluginWarnings reports the warnings of plugins that started during the turn.
type pluginWarnings struct{ r *running }

// OnEnd implements [turn.EndListener].
func (w pluginWarnings) OnEnd(context.Context) (out []event.Body) {
	for _, n := range w.r.pluginWarnings() {
		out = append(out, n)
	}
	return out
}

// turnDiff reports the changes of the turn to files.
type turnDiff struct{ files *checkpoint.Tracker }

// OnEnd implements [turn.EndListener].
func (d turnDiff) OnEnd(ctx context.Context) []event.Body {
	if diff := d.files.Diff(ctx); diff != nil {
		return []event.Body{*diff}
	}
	return nil
}
