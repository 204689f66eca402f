package plugin

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Lease permits calls to one process. Until it is released, the process is stopped only after the drain deadline. Release it
// when the call has ended.
type Lease struct {
	// Conn is the connection to the plugin's services. The process owns it; don't close it.
	Conn       *grpc.ClientConn
	Generation uint64

	generation *generation
	counts     sync.Once
}

func newLease(g *generation) *Lease {
	return &Lease{Conn: g.conn, Generation: g.id.Generation, generation: g}
}

// Manifest returns the manifest of this process.
func (l *Lease) Manifest() *contract.Manifest { return l.generation.manifest }

// Exited is closed when the process has ended.
func (l *Lease) Exited() <-chan struct{} { return l.generation.Exited() }

// ExitError explains how the process ended. It returns nil while the process is running.
func (l *Lease) ExitError() error {
	select {
	case <-l.generation.Exited():
		return l.generation.failure()
	default:
		return nil
	}
}

// Stopping is closed when the call should end now, because the process is being stopped and the drain deadline has passed.
// Half a second later, the process is stopped anyway.
func (l *Lease) Stopping() <-chan struct{} { return l.generation.stopping }

// Detach releases the lease but leaves Conn usable, for streams that last as long as the process, which a drain must not wait
// for. Release is not needed afterwards.
func (l *Lease) Detach() { l.Release() }

// Release releases the lease. Further calls do nothing.
func (l *Lease) Release() { l.counts.Do(l.generation.calls.leave) }

// KeepTools caches the tool set that this process sent, for [Slot.KnownTools] of later hosts.
func (l *Lease) KeepTools(set []byte) {
	g := l.generation
	if err := g.toolSets.Put(g.toolSet, set); err != nil {
		g.logger.Warn("can't cache a tool set; the next host has to wait for the plugin", "err", err)
	}
}

// Overran reports that a call exceeded its deadline and the grace period after it. If the previous call did so too, the process
// is taken to hang, and is ended.
func (l *Lease) Overran() {
	g := l.generation
	if g.calls.overran() >= maxOverruns {
		g.ending.condemn("two calls in a row exceeded their deadline and the grace period after it")
		g.killForStacks()
	}
}

// Finished reports that a call ended in time.
func (l *Lease) Finished() { l.generation.calls.finished() }

// maxOverruns is how many calls in a row may exceed their deadline before the process is ended.
const maxOverruns = 2

// dialOptions returns options that are appended to those of go-plugin, and so take precedence.
func (g *generation) dialOptions(creds credentials.TransportCredentials, token string) []grpc.DialOption {
	return append(wire.PlainErrors(),
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(wire.Token(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.DefaultMaxMessageBytes)),
		grpc.WithInitialWindowSize(wire.WindowBytes),
		grpc.WithInitialConnWindowSize(wire.WindowBytes),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainUnaryInterceptor(g.limitUnary),
		grpc.WithChainStreamInterceptor(g.limitStream),
	)
}

// limitUnary enforces the message size that the plugin announced, which is not known yet when the connection is established.
func (g *generation) limitUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.MaxCallSendMsgSize(int(g.maxSend.Load())))...)
}

// limitStream does the same for streams, and controls go-plugin's own streams.
func (g *generation) limitStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		// gantry doesn't use the broker, and the library would start a goroutine for each message that a plugin sends to it.
		return nil, status.Error(codes.Unimplemented, "gantry uses no broker")
	}
	s, err := stream(ctx, desc, cc, method, append(opts, grpc.MaxCallSendMsgSize(int(g.maxSend.Load())))...)
	if err != nil && strings.HasPrefix(method, "/plugin.GRPCStdio/") {
		// With any other code, the library would leak the connection. Our first call will report what is wrong.
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return s, err
}
