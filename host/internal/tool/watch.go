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

// Watch starts the plugin and reports its tool set, immediately and after each change, until the process or ctx ends.
func (c *Client) Watch(ctx context.Context, changed func(contract.ToolSet)) error {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return err
	}
	lease.Detach() // a watch must not keep the plugin from draining
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
		// While a source starts, its tools are missing, so the previous set is the better prediction.
		if !slices.ContainsFunc(tools.Sources, func(s contract.Source) bool { return s.State == contract.SourceStarting }) {
			if b, err := proto.Marshal(set); err == nil { // a received message can be encoded
				lease.KeepTools(b)
			}
		}
		changed(*tools)
	}
}

// Thread is what a plugin is told of a thread.
type Thread struct{ ID, Parent, Root, Agent, Cwd string }

// Thread tells the plugin that a thread uses it, and reports context and sessions until the process or ctx ends. The token lets the
// plugin publish in the thread outside of calls.
func (c *Client) Thread(ctx context.Context, thread Thread, token string, sink func(contract.ThreadEvent)) error {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	lease.Detach()
	stream, err := gantryv1.NewToolServiceClient(lease.Conn).Thread(ctx, &gantryv1.ThreadRequest{
		ThreadId: thread.ID, Cwd: thread.Cwd, ThreadToken: token, ParentThreadId: thread.Parent, RootThreadId: thread.Root, AgentPath: thread.Agent,
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

// StopSession ends a session of a thread, if the plugin runs.
func (c *Client) StopSession(ctx context.Context, thread, session string) error {
	return c.ifRunning(ctx, func(client gantryv1.ToolServiceClient) error {
		_, err := client.StopSession(ctx, &gantryv1.StopSessionRequest{ThreadId: thread, SessionId: session})
		return err
	})
}

// EndThread releases what the plugin holds for a thread, if the plugin runs.
func (c *Client) EndThread(ctx context.Context, thread string) error {
	return c.ifRunning(ctx, func(client gantryv1.ToolServiceClient) error {
		_, err := client.EndThread(ctx, &gantryv1.EndThreadRequest{ThreadId: thread})
		return err
	})
}

// ifRunning makes a request unless the plugin would have to be started for it.
func (c *Client) ifRunning(ctx context.Context, request func(gantryv1.ToolServiceClient) error) error {
	if c.slot.State().Mode != plugin.ModeReady {
		return nil
	}
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := request(gantryv1.NewToolServiceClient(lease.Conn)); err != nil {
		return plugin.Classify(err, lease)
	}
	return nil
}
