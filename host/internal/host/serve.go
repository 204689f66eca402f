package host

import (
	"context"
	"iter"
	"net"

	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// serve lets clients reach a thread while it runs.
func (h *Host) serve(ctx context.Context, ln *net.UnixListener, t *thread.Thread) {
	appserver.Serve(ctx, ln, appserver.Thread{
		Thread: t,
		Events: func(ctx context.Context, after uint64) iter.Seq2[event.Event, error] {
			return h.store.Events(ctx, t.ID(), after)
		},
		Library: h.library, Shell: h.shell, Reviewer: h.reviewer,
	}, h.plugins, h.log.Named("appserver").With("thread", t.ID()))
}
