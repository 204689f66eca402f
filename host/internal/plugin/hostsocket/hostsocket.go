// Package hostsocket serves the host's side to one plugin process: the host service, the transfer of file descriptors and the way to
// the network, each on a socket that only this process can use.
//
// It owns: the sockets, their token, which processes may connect, and limits and panics of the handlers. It must not know:
// what the services do.
//
// Start with [New] and [Sockets.Serve].
package hostsocket

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Names of the sockets in the folder of a process.
const (
	servicesName    = "host.sock"
	descriptorsName = "fds.sock"
	egressName      = "net.sock"
)

// Reserved reports whether a plugin can't use name for its own socket, since it is the name of one of the host's.
func Reserved(name string) bool {
	return name == servicesName || name == descriptorsName || name == egressName
}

const (
	// maxStreams is how many calls to the host a plugin may have open at once. Further ones wait.
	maxStreams = 256
	// streamWorkers are goroutines that handle requests one after the other, on stacks that have grown already. A request
	// that finds none of them idle gets a goroutine of its own.
	streamWorkers = 4
)

// Sockets are those of one process. Until [Sockets.Serve] is called, connections wait.
type Sockets struct {
	Token                         string // the process sends it with each call to the host service
	ServicesPath, DescriptorsPath string // empty if not served
	EgressPath                    string // empty until [Sockets.ServeEgress]

	services, descriptors *endpoint
	egress                *endpoint

	logger    hclog.Logger
	server    *grpc.Server
	listeners []net.Listener
	wg        sync.WaitGroup
	once      sync.Once
}

// New returns the sockets in the folder dir. They are created by [Sockets.Serve].
func New(dir string, logger hclog.Logger) *Sockets {
	return &Sockets{
		Token:    wire.NewToken(),
		services: newEndpoint(filepath.Join(dir, servicesName)), descriptors: newEndpoint(filepath.Join(dir, descriptorsName)),
		egress: newEndpoint(filepath.Join(dir, egressName)),
		logger: logger,
	}
}

// Connect connects the process to the socket at path, and returns the process's end of the connection. If the path is not
// that of one of the sockets, the error is [syscall.EPERM].
func (s *Sockets) Connect(path string) (*os.File, error) {
	for _, e := range []*endpoint{s.services, s.descriptors, s.egress} {
		if filepath.Clean(path) == e.address.Name {
			return e.connect()
		}
	}
	return nil, syscall.EPERM
}

// Serve creates the sockets and serves them. Without services or descriptors (nil), the socket in question is not created.
// descriptors is called with a listener, and has to return when that is closed. check decides which process may connect to
// the sockets by path. If Serve fails, it has closed everything.
func (s *Sockets) Serve(services func() gantryv1.HostServiceServer, descriptors func(net.Listener), check func(wire.Peer) error) error {
	if services != nil {
		if err := s.listen(s.services, check); err != nil {
			return err
		}
		s.ServicesPath = s.services.address.Name
		tokenUnary, tokenStream := wire.RequireToken(s.Token)
		panicUnary, panicStream := recoverPanics(s.logger)
		s.server = grpc.NewServer(
			grpc.Creds(wire.PeerCredentials(wire.SameUser)),
			grpc.MaxRecvMsgSize(wire.DefaultMaxMessageBytes),
			grpc.MaxSendMsgSize(wire.DefaultMaxMessageBytes),
			grpc.InitialWindowSize(wire.WindowBytes),
			grpc.InitialConnWindowSize(wire.WindowBytes),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.NumStreamWorkers(streamWorkers),
			grpc.ConnectionTimeout(5*time.Second),
			grpc.ChainUnaryInterceptor(tokenUnary, panicUnary),
			grpc.ChainStreamInterceptor(tokenStream, panicStream),
			grpc.WaitForHandlers(true),
		)
		gantryv1.RegisterHostServiceServer(s.server, services())
		s.wg.Go(func() {
			if err := s.server.Serve(s.services); err != nil {
				s.logger.Warn("the host service stopped", "err", err)
			}
		})
	} else {
		_ = s.services.Close()
	}
	if descriptors == nil {
		return s.descriptors.Close()
	}
	if err := s.listen(s.descriptors, check); err != nil {
		return err
	}
	s.DescriptorsPath = s.descriptors.address.Name
	s.wg.Go(func() { descriptors(s.descriptors) })
	return nil
}

// ServeEgress creates the socket for connections to other machines and serves it, unless egress is nil. egress is called with a listener,
// and has to return when that is closed.
func (s *Sockets) ServeEgress(egress func(net.Listener), check func(wire.Peer) error) error {
	if egress == nil {
		return s.egress.Close()
	}
	if err := s.listen(s.egress, check); err != nil {
		return err
	}
	s.EgressPath = s.egress.address.Name
	s.wg.Go(func() { egress(s.egress) })
	return nil
}

// listen creates the socket of an endpoint. Its folder belongs to this process alone.
func (s *Sockets) listen(e *endpoint, check func(wire.Peer) error) error {
	ln, err := net.Listen("unix", e.address.Name)
	if err != nil {
		s.Close()
		return fmt.Errorf("listen for the plugin: %w", err)
	}
	// The whole folder is removed later. Unlinking the socket could remove a later file of that name.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	s.listeners = append(s.listeners, ln)
	s.wg.Go(func() { e.serve(checkedListener{ln, check, s.logger}) })
	return nil
}

// handlerTimeout bounds the wait for handlers whose plugin has ended. Their contexts are cancelled by then; a handler that
// continues has a bug.
const handlerTimeout = time.Second

// Close cancels the handlers and waits for them.
func (s *Sockets) Close() {
	s.once.Do(func() {
		done := make(chan struct{})
		// Owned by Close, which waits for it unless a handler ignores the end of its context.
		go func() {
			defer close(done)
			if s.server != nil {
				s.server.Stop()
			}
			_, _, _ = s.services.Close(), s.descriptors.Close(), s.egress.Close()
			for _, ln := range s.listeners {
				_ = ln.Close()
			}
			s.wg.Wait()
		}()
		select {
		case <-done:
		case <-time.After(handlerTimeout):
			s.logger.Error("a handler of the host service is still running although its plugin has ended")
		}
	})
}

// checkedListener closes the connections of processes that check refuses.
type checkedListener struct {
	net.Listener
	check  func(wire.Peer) error
	logger hclog.Logger
}

// Accept implements [net.Listener].
func (l checkedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := wire.PeerOf(conn)
		if err == nil {
			err = l.check(peer)
		}
		if err == nil {
			return conn, nil
		}
		l.logger.Warn("refused a connection to a plugin's socket", "err", err)
		_ = conn.Close()
	}
}

// recoverPanics returns interceptors that turn a panic of a handler into an error of that call, so that no request of a
// plugin can end the host.
func recoverPanics(logger hclog.Logger) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	caught := func(method string, err *error) {
		if v := recover(); v != nil {
			logger.Error("panic in a host service", "call", method, "err", v, "stack", string(debug.Stack()))
			*err = status.Errorf(codes.Internal, "the host failed in %s", method)
		}
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer caught(info.FullMethod, &err)
		return next(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer caught(info.FullMethod, &err)
		return next(srv, ss)
	}
	return unary, stream
}
