package tool

import (
	"context"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/protobuf/proto"
)

// Known returns the tool set that the plugin sent last under the same configuration block, without starting it.
func (c *Client) Known(config []byte) (contract.ToolSet, bool) {
	b, set := c.slot.KnownTools(config), &gantryv1.WatchResponse{}
	if b == nil || proto.Unmarshal(b, set) != nil {
		return contract.ToolSet{}, false
	}
	return *convert.ToolSetFromProto(set), true
}

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
		tools := convert.ToolSetFromProto(set)
		// While a source starts, its tools are missing: the set of the last time is closer to what will be there.
		if !slices.ContainsFunc(tools.Sources, func(s contract.Source) bool { return s.State == contract.SourceStarting }) {
			if b, err := proto.Marshal(set); err == nil { // what has been received can be sent
				lease.KeepTools(b)
			}
		}
		changed(*tools)
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

// StopSession ends a session of a thread. Without a running process there is none.
func (c *Client) StopSession(ctx context.Context, thread, session string) error {
	if c.slot.State().Mode != plugin.ModeReady {
		return nil
	}
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	_, err = gantryv1.NewToolServiceClient(lease.Conn).StopSession(ctx, &gantryv1.StopSessionRequest{ThreadId: thread, SessionId: session})
	if err != nil {
		return plugin.Classify(err, lease)
	}
	return nil
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
