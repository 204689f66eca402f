// Package transport connects clients to the app server: over stdin and stdout, over a unix socket, and over a websocket.
//
// It owns: the address to listen on, authentication of clients, the number of connections, and the order in which a server stops. It
// does not know the protocol, its methods, or threads.
//
// Start with [Listen]. What [Server.Serve] starts has ended when it returns; its comment states the exceptions.
package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/hashicorp/go-hclog"
)

// Config configures a server. Zero bounds are the defaults.
type Config struct {
	Address Address
	Auth    Auth   // of TCP
	Home    string // of gantry; of Unix

	Stdin  io.Reader // of Stdio
	Stdout io.Writer // of Stdio; nothing but messages is written to it

	// Signals are the process's signals, as os/signal delivers them. The first one drains the server: it accepts no more clients, and
	// serves those that are connected until Idle returns. A second one ends it at once, except SIGHUP on a server for many clients,
	// which only drains. Nil: none.
	Signals <-chan os.Signal
	// Idle is called once, when draining begins. It returns when no turn is running, and when ctx ends. Nil: no turn ever runs.
	Idle func(ctx context.Context)

	// Views finds the view whose frames a client wants that connects to /view/TOKEN; ok is false if there is none. Its handler gets a
	// stream that writes binary messages. Nil: the path has no meaning. Of Unix and TCP.
	Views func(token string, p Peer) (handle Handler, ok bool)

	// HTTP serves requests at /mcp instead of websockets; the handler of [Server.Serve] is not used. Its requests passed the same checks,
	// and come from no process that this one has started. Of TCP. Nil: websockets.
	HTTP http.Handler

	// Page serves a web page to browsers, which connect with a websocket from that page; other clients are refused. Of TCP, on a loopback
	// address; Auth is not used. Nil: requests of web pages are refused.
	Page Page

	Logger hclog.Logger // nil: none

	MaxClients   int           // connected at the same time; default 1,024
	MaxHandshake time.Duration // from the connection to the end of the HTTP request; default 10 s
	MaxPending   int           // connections before the end of their HTTP request; beyond, none is accepted; default 256
	Grace        time.Duration // from the end of the handlers' ctx to that of their streams; default 5 s
}

// Page is a web page whose script is a client. Its methods are called concurrently, for requests that name this server by an address of
// its own. A request that can have an effect comes from the page itself, and from no process that this one has started.
type Page interface {
	// ServeHTTP serves what is not a websocket.
	http.Handler
	// Authorize checks the credentials of a websocket handshake, and returns the subprotocol to agree on.
	Authorize(r *http.Request) (subprotocol string, err error)
}

// maxHeader is the size in bytes of the largest HTTP request, which net/http exceeds by 4 KiB.
const maxHeader = 16 << 10

func (c Config) withDefaults() Config {
	if c.Idle == nil {
		c.Idle = func(context.Context) {}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.MaxClients == 0 {
		c.MaxClients = 1024
	}
	if c.MaxHandshake == 0 {
		c.MaxHandshake = 10 * time.Second
	}
	if c.MaxPending == 0 {
		c.MaxPending = 256
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	return c
}

// Peer is the client of a connection.
type Peer struct {
	Kind Kind
	Addr string // of TCP: address and port
	PID  int    // of Unix; 0: the kernel does not report it
	// Launched is set if this process has started the client, directly or through other processes: a command of an agent. Over TCP it is
	// known on Linux only, and not of a process that hides its open files.
	Launched bool
}

// Handler serves a client. It returns when Read of the stream returns a final error, or soon after ctx has ended; the cause of ctx says
// why. The stream is closed when it returns, and [Config.Grace] after the end of ctx, or together with it if the end is forced.
type Handler func(ctx context.Context, s rpc.Stream, p Peer)

// Causes of the end of a handler's ctx.
var (
	ErrDrained = errors.New("the server has been stopped")
	ErrForced  = errors.New("the server has been stopped by a second signal")
)

// endpoint is where clients of one kind connect.
type endpoint interface {
	// run accepts clients until refuse is called, and returns when the last one has ended. ctx is that of handlers; the end of kill
	// closes their streams. It returns an error if it can accept no more.
	run(ctx, kill context.Context, handle Handler) error
	// refuse stops accepting clients. It may be called more than once, and before run.
	refuse()
	// url is the address at which clients connect.
	url() string
}

// Server accepts clients.
type Server struct {
	cfg      Config
	endpoint endpoint
}

// Listen opens the address, so that clients can connect; [Server.Serve] serves them. A TCP address without authentication is refused,
// and so is a unix socket that another process listens on.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if cfg.Page != nil {
		if !cfg.Address.TCP.Addr().IsLoopback() {
			return nil, hint.New(fmt.Sprintf("a page can't be served on %s: other machines can reach that address", cfg.Address), "listen on 127.0.0.1")
		}
	} else if err := cfg.Auth.permits(cfg.Address); err != nil {
		return nil, err
	}
	var e endpoint
	var err error
	switch cfg.Address.Kind {
	case Stdio:
		e = &stdio{in: cfg.Stdin, out: cfg.Stdout, cfg: cfg}
	case Unix:
		e, err = listenUnix(ctx, cfg)
	case TCP:
		e, err = listenTCP(ctx, cfg)
	case Passed:
		e, err = listenPassed(cfg)
	default:
		err = hint.New(fmt.Sprintf("a server that listens on %s has no clients", cfg.Address), forms)
	}
	if err != nil {
		return nil, err
	}
	return &Server{cfg, e}, nil
}

// URL returns the address at which clients connect, with the port that the system has chosen and the absolute path of a socket.
func (s *Server) URL() string { return s.endpoint.url() }

// Close closes a server that is not served.
func (s *Server) Close() error {
	s.endpoint.refuse()
	return nil
}

// Serve serves clients with handle, which is called on one goroutine per client, until the server has been drained or, on stdio, its
// client has closed stdin; the end of the client of a passed socket drains. Then it returns nil. It returns [ErrForced] after a second signal, and the cause of ctx if that has ended;
// both do not wait for turns.
//
// It returns when all handlers and Idle have ended, except those that ignore the end of ctx and of their stream for [Config.Grace]
// after a forced end. A read of stdin, and a write to stdout that the client does not read, cannot be interrupted: those end with the process.
func (s *Server) Serve(ctx context.Context, handle Handler) error {
	clients, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	streams, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()

	served := make(chan error, 1)
	go func() { served <- s.endpoint.run(clients, streams, s.guard(handle)) }() // ends after clients and streams; Serve waits for it
	var idle chan struct{}                                                      // closed when Idle has returned; nil: it does not run
	var grace, bound <-chan time.Time

	p, done := serving, ctx.Done()
	var result error
	enter := func(next phase, cause error) {
		if next <= p {
			return
		}
		s.cfg.Logger.Debug("app server", "state", next)
		if p < draining {
			s.endpoint.refuse()
		}
		if p < draining && next == draining {
			idle = make(chan struct{})
			go func() { // ends with clients; Serve waits for it
				defer close(idle)
				s.cfg.Idle(clients)
			}()
		}
		if next >= stopping {
			end(cause)
		}
		if next == forced {
			kill()
			result = cause
			bound = time.After(s.cfg.Grace)
		} else if next == stopping {
			grace = time.After(s.cfg.Grace)
		}
		p = next
	}
	for {
		select {
		case sig := <-s.cfg.Signals:
			s.cfg.Logger.Info("signal", "signal", sig)
			enter(p.signaled(sig, s.cfg.Address.Kind != Stdio), ErrForced)
		case <-idle:
			idle = nil
			enter(stopping, ErrDrained)
		case err := <-served:
			served = nil
			if p == serving || p == draining && s.cfg.Address.Kind == Stdio {
				result = err
				next := stopping
				if s.cfg.Address.Kind == Passed && err == nil {
					next = draining // the client has left, and its turns end by themselves
				}
				enter(next, cmp.Or(err, ErrDrained))
			}
		case <-done:
			done = nil
			enter(forced, context.Cause(ctx))
		case <-grace:
			kill()
		case <-bound:
			s.cfg.Logger.Warn("clients are still being served although the server has been stopped")
			return result
		}
		if p >= stopping && served == nil && idle == nil {
			return result
		}
	}
}

// guard returns handle with a panic contained: it costs one connection.
func (s *Server) guard(handle Handler) Handler {
	return func(ctx context.Context, stream rpc.Stream, p Peer) {
		defer func() {
			if v := recover(); v != nil {
				s.cfg.Logger.Error("panic while serving a client", "err", v, "stack", string(debug.Stack()))
			}
		}()
		handle(ctx, stream, p)
	}
}

// serveStream serves one client and closes its stream: when handle returns, and when kill ends.
func serveStream(ctx, kill context.Context, s rpc.Stream, p Peer, handle Handler) {
	var closing sync.WaitGroup
	closing.Add(1)
	stop := context.AfterFunc(kill, func() { // serveStream waits for it
		defer closing.Done()
		_ = s.Close()
	})
	handle(ctx, s, p)
	_ = s.Close()
	if !stop() {
		closing.Wait()
	}
}
