// Package server keeps the connection to an MCP server.
//
// It owns: when a server is started, restarted and ended, its state, its current tools, and which call a message of the server belongs
// to. It must not know: how a transport works, how tools are declared to the host, what a person is asked.
//
// Start with [New]. A [Server] has at most one connection that takes new calls; everything it starts has ended when Close returns.
package server

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// DefaultProtocol is the version of the protocol that is offered unless a server's block names another one.
const DefaultProtocol = "2025-06-18"

const (
	settle      = time.Second / 2 // between a server's notice that its tools have changed and the request for them
	closeTime   = 2 * time.Second // for the end of a session, before its process or streams are ended
	stable      = time.Minute     // a connection that has lasted this long is no failure
	maxBackoff  = 30 * time.Second
	brokenAfter = 5 // failures in a row
	brokenTime  = 5 * time.Minute
	maxLogLines = 100 // of a server's own log, per connection
	maxSampling = 8   // requests of a server for a model's answer at a time
)

// retries are the delays before further attempts over HTTP.
var retries = [...]time.Duration{250 * time.Millisecond, time.Second}

// Link is a way to a server that has been opened.
type Link struct {
	Transport mcp.Transport
	Retry     bool          // whether requests that change nothing can be sent again after an error
	Close     func()        // ends the link and what it has started, and waits for that; may be called several times; nil: nothing
	Explain   func() string // what is known about the end of the server, such as its exit code; nil or "": nothing
}

// Config is what a server is.
type Config struct {
	Name           string
	Open           func(ctx context.Context) (Link, error) // ctx lasts as long as the link
	URL            string                                  // the address; empty: a program
	AwaitLogin     func(ctx context.Context) error         // waits for a login after a *auth.LoginError; nil: there is none
	Client         *mcp.Implementation
	Protocol       string        // default: [DefaultProtocol]
	StartupTimeout time.Duration // default: 30 s
	Idle           time.Duration // a connection without calls is closed after this time; 0: it is not
	Choice         catalog.Choice
	Sampling       bool                    // whether the server may ask for answers of a model
	Roots          bool                    // whether the server gets the folders of SetRoots
	Tools          []catalog.Tool          // from an earlier connection; nil: unknown
	Instructions   string                  // likewise
	Prompts        []contract.SourcePrompt // likewise
	Resources      bool                    // likewise
	Problems       []string                // likewise
	Changed        func()                  // is called after the status has changed, at most once at a time
	Logger         hclog.Logger
}

// State is the state of a server.
type State int

// The states.
const (
	Unknown  State = iota // never started, and its tools are not known
	Starting              // its tools are not known yet
	Ready                 // its tools are known; it may have to be started again
	NeedsLogin
	Failed
)

// Status is what is known about a server.
type Status struct {
	State        State
	Message      string // why it is not ready
	Tools        []catalog.Tool
	Problems     []string // tools that are left out
	Instructions string
	Prompts      []contract.SourcePrompt
	Resources    bool // whether it has resources
}

// Events are told of what a server sends during a call. Nil functions are not.
type Events struct {
	Progress func(message string, done, total float64)
	Elicit   func(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	Sample   func(ctx context.Context, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	Meta     map[string]any // sent with the call
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the server's connection is closed")

// Server is a server of the configuration.
type Server struct {
	cfg   Config
	life  context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup
	poke  chan struct{} // the status has changed

	mu struct {
		sync.Mutex
		status   Status
		conn     *conn
		starting *attempt
		failures int       // in a row
		until    time.Time // no attempt before
		closed   bool
		awaits   bool // awaitLogin runs
		roots    []*mcp.Root
	}
}

// attempt is a start that callers wait for.
type attempt struct {
	done chan struct{}
	conn *conn
	err  error
}

// New returns a server, which is started by the first call or by Start.
func New(cfg Config) *Server {
	if cfg.Protocol == "" {
		cfg.Protocol = DefaultProtocol
	}
	if cfg.StartupTimeout == 0 {
		cfg.StartupTimeout = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	s := &Server{cfg: cfg, poke: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	if cfg.Tools != nil {
		s.mu.status = Status{State: Ready, Tools: cfg.Tools, Instructions: cfg.Instructions, Prompts: cfg.Prompts, Resources: cfg.Resources, Problems: cfg.Problems}
	}
	s.tasks.Go(s.report) // ends with life
	return s
}

// Name returns the server's name.
func (s *Server) Name() string { return s.cfg.Name }

// Status returns the current status. Its slices are shared.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.status
}

// Start starts the server if it does not run, and waits until it is ready, has failed, or ctx ends. It goes on starting then.
func (s *Server) Start(ctx context.Context) error {
	c, err := s.acquire(ctx)
	if err == nil {
		s.release(c)
	}
	return err
}

// Learn takes what another connection has found out about the server, unless this server has a connection, which knows better.
func (s *Server) Learn(st Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.State != Ready || s.mu.conn != nil || s.mu.closed {
		return
	}
	st.Prompts = s.mu.status.Prompts // they are listed later than the tools
	s.mu.status = st
	s.changed()
}

// Begin starts the server if it does not run, without waiting for it: its status has the outcome.
func (s *Server) Begin() {
	s.tasks.Go(func() { _ = s.Start(s.life) })
}

// SetRoots replaces the folders that the server is told of, if it gets any. Calls that are made afterwards are sent after them.
func (s *Server) SetRoots(roots []*mcp.Root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.roots = roots
	if c := s.mu.conn; c != nil && s.cfg.Roots && !s.mu.closed {
		s.tasks.Go(c.syncRoots) // the server may be slow to read
	}
}

// Call calls a tool and returns the result as the server wrote it.
func (s *Server) Call(ctx context.Context, tool string, args json.RawMessage, ev Events) (json.RawMessage, error) {
	return s.do(ctx, func(c *conn) (json.RawMessage, error) { return c.call(ctx, tool, args, ev) })
}

// Resources sends a request that changes nothing: "resources/list", "resources/templates/list" with a cursor, or "resources/read" with
// the address of a resource.
func (s *Server) Resources(ctx context.Context, method, argument string) (json.RawMessage, error) {
	return s.do(ctx, func(c *conn) (raw json.RawMessage, err error) {
		return c.retried(ctx, func(ctx context.Context) (json.RawMessage, error) { return c.resources(ctx, method, argument) })
	})
}

// do uses the connection, and another one if the server has forgotten the session: then it has not done anything.
func (s *Server) do(ctx context.Context, f func(c *conn) (json.RawMessage, error)) (json.RawMessage, error) {
	for again := true; ; again = false {
		c, err := s.acquire(ctx)
		if err != nil {
			return nil, err
		}
		raw, err := f(c)
		if forgotten(err) {
			s.retire(c)
			if again {
				s.release(c)
				continue
			}
		}
		if err != nil {
			err = c.explain(ctx, err)
		}
		s.loginOf(err)
		s.release(c)
		return raw, err
	}
}

// forgotten reports whether the server does not know the session of a request.
func forgotten(err error) bool {
	status, ok := errors.AsType[*transport.StatusError](err)
	return ok && status.Code == 404 && status.Session || errors.Is(err, mcp.ErrSessionMissing)
}

// acquire returns the connection, which is started if there is none. Release it.
func (s *Server) acquire(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if c := s.mu.conn; c != nil {
		c.use()
		s.mu.Unlock()
		return c, nil
	}
	a := s.mu.starting
	if a == nil {
		if wait := time.Until(s.mu.until); wait > 0 {
			message := s.mu.status.Message
			s.mu.Unlock()
			return nil, fmt.Errorf("%s; it is not started again for %v", message, wait.Round(time.Second))
		}
		a = &attempt{done: make(chan struct{})}
		s.mu.starting = a
		if s.mu.status.State != Ready {
			s.mu.status.State = Starting
			s.changed()
		}
		s.tasks.Go(func() { s.start(a) })
	}
	s.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if a.err != nil {
		return nil, a.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, ErrClosed
	}
	a.conn.use() // it may have ended already; the call then says why
	return a.conn, nil
}

// start makes a connection.
func (s *Server) start(a *attempt) {
	c, err := s.connect()
	s.mu.Lock()
	s.mu.starting = nil
	switch {
	case s.mu.closed: // which is no failure of the server, and must not be published as one
		err = ErrClosed
	case err != nil:
		s.failed(err)
	default:
		s.mu.conn = c
		s.mu.status = Status{
			State: Ready, Tools: c.listed.tools, Problems: c.listed.problems, Instructions: c.instructions,
			Prompts: s.mu.status.Prompts, Resources: c.offers().Resources != nil,
		}
		c.follow()
		s.idle(c)
	}
	s.changed()
	s.mu.Unlock()
	if err != nil && c != nil {
		c.close()
	}
	a.conn, a.err = c, err
	close(a.done)
	if err == nil {
		defer context.AfterFunc(s.life, c.close)()
		s.watch(c)
	}
}

// loginOf notes after a call whether the server needs a login. One for more scopes does not keep other tools from being called.
func (s *Server) loginOf(err error) {
	login, needed := errors.AsType[*auth.LoginError](err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case needed && len(login.Scopes) == 0:
		s.needsLogin(login)
	case err == nil && s.mu.status.State == NeedsLogin:
		s.mu.status.State, s.mu.status.Message = Ready, ""
	default:
		return
	}
	s.changed()
}

// needsLogin notes that only a person can help, and waits until one has. s.mu is held.
func (s *Server) needsLogin(err *auth.LoginError) {
	s.mu.status.State, s.mu.status.Message = NeedsLogin, err.Error()
	if s.cfg.AwaitLogin == nil || s.mu.awaits || s.mu.closed {
		return
	}
	s.mu.awaits = true
	s.tasks.Go(func() { // ends with life
		if s.cfg.AwaitLogin(s.life) != nil {
			return
		}
		s.mu.Lock()
		s.mu.awaits = false
		if s.mu.conn != nil && s.mu.status.State == NeedsLogin {
			s.mu.status.State, s.mu.status.Message = Ready, ""
			s.changed()
		}
		s.mu.Unlock()
		_ = s.Start(s.life) // its status has the error
	})
}

// failed notes a failure and when the next attempt may be made. s.mu is held.
func (s *Server) failed(err error) {
	if login, ok := errors.AsType[*auth.LoginError](err); ok { // may have happened by the next attempt
		s.needsLogin(login)
		return
	}
	s.mu.status.State, s.mu.status.Message = Failed, catalog.Text(err.Error(), 4<<10)
	if status, ok := errors.AsType[*transport.StatusError](err); ok && status.Code == 401 {
		s.mu.status.State = NeedsLogin
	}
	s.mu.failures++
	wait := brokenTime
	if n := s.mu.failures; n < brokenAfter {
		wait = min(maxBackoff, time.Second<<(n-1))
	}
	s.mu.until = time.Now().Add(wait)
}

// watch waits for the end of a connection.
func (s *Server) watch(c *conn) {
	_ = c.session.Wait()
	s.mu.Lock()
	if s.mu.conn == c { // otherwise it has been retired
		s.mu.conn = nil
		if time.Since(c.since) >= stable {
			s.mu.failures = 0
		}
		if s.mu.failures++; s.mu.failures > 1 { // the first time, the next call starts it at once
			s.mu.failures--
			s.failed(fmt.Errorf("the server %q has ended again%s", s.cfg.Name, c.explanation()))
			s.changed()
		}
	}
	s.mu.Unlock()
	c.close()
}

// retire keeps a connection from new calls. It is closed after its last call.
func (s *Server) retire(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn == c {
		s.mu.conn = nil
	}
}

func (s *Server) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	switch {
	case s.mu.conn == c:
		s.idle(c)
	case !s.mu.closed:
		s.tasks.Go(c.close)
	}
}

// idle closes a connection that is not used for a while. The server stays ready. s.mu is held.
func (s *Server) idle(c *conn) {
	if s.cfg.Idle <= 0 {
		return
	}
	used := c.uses
	c.reaper = time.AfterFunc(s.cfg.Idle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.conn == c && c.uses == used {
			s.mu.conn = nil
			s.tasks.Go(c.close)
		}
	})
}

// relisted takes the tools that a server has after it has said that they changed.
func (s *Server) relisted(c *conn, l listed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn != c {
		return
	}
	if err != nil {
		s.cfg.Logger.Warn("the changed tools can't be listed", "server", s.cfg.Name, "err", err)
		return
	}
	s.mu.status.Tools, s.mu.status.Problems = l.tools, l.problems
	s.changed()
}

// prompted takes the prompts that a server has.
func (s *Server) prompted(c *conn, prompts []contract.SourcePrompt, problems []error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn != c { // its end has cut the request off
		return
	}
	if err == nil {
		err = errors.Join(problems...)
	}
	if err != nil {
		s.cfg.Logger.Warn("not all prompts can be listed", "server", s.cfg.Name, "err", err)
	}
	s.mu.status.Prompts = prompts
	s.changed()
}

// Prompts gets a page of the prompts.
func (s *Server) Prompts(ctx context.Context, cursor string) (json.RawMessage, error) {
	return s.read(ctx, promptPage(cursor))
}

// Prompt fills in a prompt and returns the result as the server wrote it.
func (s *Server) Prompt(ctx context.Context, name string, args map[string]string) (json.RawMessage, error) {
	return s.read(ctx, func(ctx context.Context, c *conn) (mcp.Meta, error) {
		res, err := c.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args})
		if err != nil {
			return nil, err
		}
		return res.Meta, nil
	})
}

// Complete gets proposals for the value of an argument.
func (s *Server) Complete(ctx context.Context, p *mcp.CompleteParams) (out mcp.CompletionResultDetails, err error) {
	_, err = s.do(ctx, func(c *conn) (json.RawMessage, error) {
		ctx, stop := c.bound(ctx)
		defer stop()
		if c.offers().Completions == nil {
			return nil, fmt.Errorf("it proposes no values")
		}
		res, err := c.session.Complete(ctx, p)
		if err == nil {
			out = res.Completion
		}
		return nil, err
	})
	return out, err
}

// read sends a request that changes nothing.
func (s *Server) read(ctx context.Context, f func(context.Context, *conn) (mcp.Meta, error)) (json.RawMessage, error) {
	return s.do(ctx, func(c *conn) (json.RawMessage, error) { return c.read(ctx, f) })
}

// changed reports that the status has changed.
func (s *Server) changed() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// report calls Changed, which takes its time elsewhere than under a lock.
func (s *Server) report() {
	for {
		select {
		case <-s.poke:
			if s.cfg.Changed != nil {
				s.cfg.Changed()
			}
		case <-s.life.Done():
			return
		}
	}
}

// Close ends the server. Calls that are running fail.
func (s *Server) Close() {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.conn = nil
	s.mu.Unlock()
	s.end() // closes the connections, for whose ends tasks wait
	s.tasks.Wait()
}
