package hub

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/workbench"
)

// Workbench returns what clients may do in a workspace besides running threads. The workspace's host stays open until leave is called.
func (h *Hub) Workbench(ctx context.Context, w Workspace) (_ *workbench.Workspace, leave func(), err error) {
	s, err := h.enter(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	return s.host.Workbench(w.Dir), func() { h.leave(s) }, nil
}
