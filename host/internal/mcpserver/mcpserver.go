// Package mcpserver serves agents, and tools of plugins, to clients that speak the Model Context Protocol.
//
// It owns the tools that clients see, how a call of one becomes a turn of a thread, and how questions of the thread become requests of the
// protocol. It does not know how a thread runs, where it is stored, or how clients are connected.
//
// Start with [New]. The protocol is that of github.com/modelcontextprotocol/go-sdk. A server that gantry offers is for all clients of the
// process: a thread belongs to no connection, so that a client that comes back goes on with it.
package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Config configures a server. Hub is required.
type Config struct {
	Hub     *hub.Hub
	Version string
	// Workspace is what threads have in common: their settings and profile. Dir is the folder of threads for which the client names none.
	Workspace hub.Workspace
	// Tools are the labels of plugins whose tools are offered, each call in a thread of the client. The list stays the same.
	Tools []string
	// Widening returns those of some settings, each NAME=VALUE, that would widen what the configuration of a folder permits. Calls that ask
	// for them are refused, and so are calls for folders outside of Workspace.Dir. nil: clients may ask for anything.
	Widening func(ctx context.Context, dir string, sets []string) []string

	SessionTimeout time.Duration // after which a client over HTTP that sends nothing loses its session, but not its threads; default 30 min
	MaxSessions    int           // clients over HTTP at the same time; default 256

	Logger hclog.Logger // nil: none
}

// Server serves any number of clients.
type Server struct {
	cfg Config
	log hclog.Logger
	mcp *mcp.Server

	mu      sync.Mutex
	running map[*call]struct{}
	threads map[*mcp.ServerSession]*toolThread
}

// versions are the versions of the protocol that are offered. Later ones do not let a server ask its client while a call runs.
func versions() []string { return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} }

// New returns a server. It starts plugins whose tools are not known yet. An error names a plugin that has no tools.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 30 * time.Minute
	}
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = 256
	}
	s := &Server{cfg: cfg, log: cfg.Logger, running: map[*call]struct{}{}, threads: map[*mcp.ServerSession]*toolThread{}}
	s.mcp = mcp.NewServer(
		&mcp.Implementation{Name: "gantry", Title: "Gantry", Version: cfg.Version},
		&mcp.ServerOptions{SupportedProtocolVersions: versions(), Capabilities: &mcp.ServerCapabilities{}},
	)
	return s, errors.Join(s.addAgents(), s.addTools(ctx))
}

// Serve serves one client until it closes the stream or ctx ends. Calls that run then are interrupted; their threads stay.
func (s *Server) Serve(ctx context.Context, stream rpc.Stream) error {
	rpc.Limit(stream, maxMessage)
	err := s.mcp.Run(ctx, stdio{stream})
	if ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

// Handler returns the server for clients that use streamable HTTP. It doesn't check who they are.
func (s *Server) Handler() http.Handler {
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		EventStore: mcp.NewMemoryEventStore(nil), SessionTimeout: s.cfg.SessionTimeout,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && len(slices.Collect(s.mcp.Sessions())) >= s.cfg.MaxSessions {
			http.Error(w, fmt.Sprintf("%d clients have a session, which is the maximum: end one with DELETE", s.cfg.MaxSessions), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Close ends the sessions of all clients. Calls that run then are interrupted.
func (s *Server) Close() error {
	var errs []error
	for session := range s.mcp.Sessions() {
		errs = append(errs, session.Close())
	}
	return errors.Join(errs...)
}
