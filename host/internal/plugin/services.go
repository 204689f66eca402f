package plugin

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Names of the host's own sockets in the folder of a process.
const (
	servicesSocket    = "host.sock"
	descriptorsSocket = "fds.sock"
)

// maxServiceStreams is how many calls a plugin may have open at the host at once; further ones wait.
const maxServiceStreams = 256

// services are what the host serves to one process: HostService and the hand-over of descriptors, each on a socket that
// only this process may use.
type services struct {
	token                 string
	socket, descriptorsAt string // empty: not served
	server                *grpc.Server
	listeners             []net.Listener
	wg                    sync.WaitGroup
	once                  sync.Once
}

// streamWorkers handle requests on stacks that have grown already. A request that finds none of them idle gets a goroutine of its
// own.
const streamWorkers = 4

// serve starts them. check decides which process may connect by the path of a socket.
func serve(cfg Config, id Identity, dir string, ways doors, check func(wire.Peer) error, logger hclog.Logger) (_ *services, err error) {
	s := &services{token: wire.NewToken()}
	defer func() {
		if err != nil {
			s.close(logger)
		}
	}()
	if cfg.Services == nil {
		_ = ways.services.Close()
	} else {
		s.socket = filepath.Join(dir, servicesSocket)
		ln, err := listen(s.socket)
		if err != nil {
			return nil, err
		}
		s.listeners = append(s.listeners, ln, ways.services)
		s.wg.Go(func() { ways.services.admit(checkedListener{ln, check, logger}) })
		tokenUnary, tokenStream := wire.RequireToken(s.token)
		panicUnary, panicStream := recoverPanics(logger)
		s.server = grpc.NewServer(
			grpc.Creds(wire.PeerCredentials(wire.SameUser)),
			grpc.MaxRecvMsgSize(maxMessageBytes),
			grpc.MaxSendMsgSize(maxMessageBytes),
			grpc.MaxConcurrentStreams(maxServiceStreams),
			grpc.NumStreamWorkers(streamWorkers),
			grpc.ConnectionTimeout(5*time.Second),
			grpc.ChainUnaryInterceptor(tokenUnary, panicUnary),
			grpc.ChainStreamInterceptor(tokenStream, panicStream),
			grpc.WaitForHandlers(true),
		)
		gantryv1.RegisterHostServiceServer(s.server, cfg.Services(id))
		s.wg.Go(func() {
			if err := s.server.Serve(ways.services); err != nil {
				logger.Warn("serving the host's services ended", "err", err)
			}
		})
	}
	if cfg.Descriptors == nil {
		_ = ways.descriptors.Close()
	} else {
		s.descriptorsAt = filepath.Join(dir, descriptorsSocket)
		ln, err := listen(s.descriptorsAt)
		if err != nil {
			return nil, err
		}
		s.listeners = append(s.listeners, ln, ways.descriptors)
		s.wg.Go(func() { ways.descriptors.admit(checkedListener{ln, check, logger}) })
		s.wg.Go(func() { cfg.Descriptors(id, ways.descriptors) })
	}
	return s, nil
}

// listen makes a socket; the folder around it is ours alone.
func listen(path string) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the plugin: %w", err)
	}
	// The folder goes as a whole; unlinking here could hit a later file of that name.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	return ln, nil
}

// handlerPatience bounds the wait for handlers whose plugin is gone. Their contexts have ended; one that goes on is a bug.
const handlerPatience = time.Second

// close cancels what runs and waits for it.
func (s *services) close(logger hclog.Logger) {
	s.once.Do(func() {
		done := make(chan struct{})
		// Owned by close, which waits for it unless a handler ignores the end of its context.
		go func() {
			defer close(done)
			if s.server != nil {
				s.server.Stop()
			}
			for _, ln := range s.listeners {
				_ = ln.Close()
			}
			s.wg.Wait()
		}()
		select {
		case <-done:
		case <-time.After(handlerPatience):
			logger.Error("a handler of the host's services goes on although its plugin is gone")
		}
	})
}

// checkedListener only hands out connections of the right process.
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

// recoverPanics makes a panic of a handler fail that call only: what a plugin sends must not end the host.
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
