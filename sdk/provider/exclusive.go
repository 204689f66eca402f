package provider

import (
	"context"
	"fmt"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Exclusive runs f while no other process of the same user runs a function under the same name, for example to refresh a
// token that can be used only once. It waits for its turn for up to wait. The context passed to f ends if the exclusive
// right is lost.
func (h *Host) Exclusive(ctx context.Context, name string, wait time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.services().Lease(ctx, &gantryv1.LeaseRequest{Name: name, WaitMs: wait.Milliseconds()})
	if err != nil {
		return fmt.Errorf("lease %q: %w", name, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("lease %q: %w", name, err)
	}
	switch s := first.GetState().(type) {
	case *gantryv1.LeaseResponse_Granted:
	case *gantryv1.LeaseResponse_Busy:
		return fmt.Errorf("lease %q is held by %s", name, s.Busy)
	default:
		return fmt.Errorf("lease %q: not granted: %s", name, first.GetLost())
	}
	working, lost := context.WithCancel(ctx)
	defer lost()
	watched := make(chan struct{})
	// Owner: Exclusive, which ends the stream and waits for the goroutine.
	go func() {
		defer close(watched)
		defer lost()
		_, _ = stream.Recv() // returns when the lease is lost or the stream ends
	}()
	err = f(working)
	cancel()
	<-watched
	return err
}
