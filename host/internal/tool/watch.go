package tool

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Watch starts the plugin and reports its tool set, at once and whenever it changes, until the process or ctx ends.
func (c *Client) Watch(ctx context.Context, changed func(contract.ToolSet)) error {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return err
	}
	lease.Detach() // a watch is no work: it must not keep the plugin from draining
	stream, err := gantryv1.NewToolServiceClient(lease.Conn).Watch(ctx, &gantryv1.WatchRequest{})
	if err != nil {
		return plugin.Classify(err, lease)
	}
	for {
		set, err := stream.Recv()
		if err != nil {
			select {
			case <-lease.Exited():
				return nil
			default:
				return plugin.Classify(err, lease)
			}
		}
		changed(*convert.ToolSetFromProto(set))
	}
}

// Thread tells the plugin that a thread uses it, and reports context and sessions until the process or ctx ends. With token
// the plugin may speak in the thread outside any call.
func (c *Client) Thread(ctx context.Context, thread, cwd, token string, sink func(contract.ThreadEvent)) error {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	lease.Detach()
	stream, err := gantryv1.NewToolServiceClient(lease.Conn).Thread(ctx, &gantryv1.ThreadRequest{
		ThreadId: thread, Cwd: cwd, ThreadToken: token,
	})
	if err != nil {
		return plugin.Classify(err, lease)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return plugin.Classify(err, lease)
		}
		if ev, ok := convert.ThreadEventFromProto(m); ok {
			sink(ev)
		}
	}
}

// EndThread releases what the plugin holds for a thread, if it runs.
func (c *Client) EndThread(ctx context.Context, thread string) error {
	if c.slot.State().Mode != plugin.ModeReady {
		return nil
	}
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	_, err = gantryv1.NewToolServiceClient(lease.Conn).EndThread(ctx, &gantryv1.EndThreadRequest{ThreadId: thread})
	return err
}
