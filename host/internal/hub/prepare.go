package hub

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// Prepared is a request to a model that was not sent.
type Prepared = host.Prepared

// Prepare returns the request that a thread would send first for a submission: a stored thread, or a new one in the workspace if id is
// empty. The submission may be blank for a stored thread. Nothing is stored or sent.
func (h *Hub) Prepare(ctx context.Context, w Workspace, id event.ThreadID, sub Submission) (*Prepared, error) {
	in, err := sub.Input.turn()
	if err != nil {
		return nil, err
	}
	s, err := h.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	defer h.leave(s)
	return s.host.Prepare(ctx, host.PrepareParams{
		Thread: id, Cwd: w.Dir, Submission: thread.Submission{Input: in, OutputSchema: sub.OutputSchema, Change: changeOf(sub.Settings)},
	})
}
