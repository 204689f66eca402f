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

// Lease is the right to call one process. While it is held, the process is only stopped after the drain deadline. Release
// it when the call is over.
type Lease struct {
	// Conn reaches the plugin's services. It is the process's: don't close it.
	Conn       *grpc.ClientConn
	Generation uint64

	generation *generation
	counts     sync.Once
}

func newLease(g *generation) *Lease {
	return &Lease{Conn: g.conn, Generation: g.id.Generation, generation: g}
}

// Manifest is what this process said about itself.
func (l *Lease) Manifest() *contract.Manifest { return l.generation.manifest }

// Exited is closed when the process has ended.
func (l *Lease) Exited() <-chan struct{} { return l.generation.Exited() }

// ExitError says how the process ended; nil while it runs.
func (l *Lease) ExitError() error {
	select {
	case <-l.generation.Exited():
		return l.generation.failure()
	default:
		return nil
	}
}

// Stopping is closed when the call should come to an end now, because the process is being stopped and the time for
// finishing is over. Half a second later it is stopped all the same.
func (l *Lease) Stopping() <-chan struct{} { return l.generation.stopping }

// Detach keeps the connection usable but lets go of the process: for streams that last as long as it does, which a drain
// must not wait for. Release is not needed any more.
func (l *Lease) Detach() { l.Release() }

// Release ends the lease. Further calls of it do nothing.
func (l *Lease) Release() { l.counts.Do(l.generation.calls.leave) }

// KeepTools caches the tool set that this process sent, for [Slot.KnownTools] of later hosts.
func (l *Lease) KeepTools(set []byte) {
	g := l.generation
	if err := g.toolSets.Put(g.toolSet, set); err != nil {
		g.logger.Warn("can't cache a tool set; the next host has to wait for the plugin", "err", err)
	}
}

// Overran reports that a call exceeded its deadline and the grace after it: once marks the call, a second one in a row
// means that the process hangs, and it is ended.
func (l *Lease) Overran() {
	g := l.generation
	if g.calls.overran() >= maxOverruns {
		g.ending.condemn("two calls in a row exceeded their deadline and the grace after it")
		g.abort()
	}
}

// Finished reports that a call ended in time.
func (l *Lease) Finished() { l.generation.calls.finished() }

// maxOverruns calls in a row that ignore their deadline mark the process.
const maxOverruns = 2

// dialOptions are appended to go-plugin's, so that they win.
func (g *generation) dialOptions(creds credentials.TransportCredentials, token string) []grpc.DialOption {
	return append(wire.PlainErrors(),
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(wire.Token(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.DefaultMaxMessageBytes)),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainUnaryInterceptor(g.limitUnary),
		grpc.WithChainStreamInterceptor(g.limitStream),
	)
}

// limitUnary keeps to the size that the plugin announced, which is known after the connection is made.
func (g *generation) limitUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.MaxCallSendMsgSize(int(g.maxSend.Load())))...)
}

// limitStream does the same, and stands between go-plugin's own streams and the plugin.
func (g *generation) limitStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		// We broker nothing, and the library starts a goroutine for each message that a plugin cares to send there.
		return nil, status.Error(codes.Unimplemented, "gantry uses no broker")
	}
	s, err := stream(ctx, desc, cc, method, append(opts, grpc.MaxCallSendMsgSize(int(g.maxSend.Load())))...)
	if err != nil && strings.HasPrefix(method, "/plugin.GRPCStdio/") {
		// Any other code makes the library forget the connection without closing it. The first call of ours says what is
		// wrong.
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return s, err
}
