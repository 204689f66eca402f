// Package acp serves threads to editors that speak the Agent Client Protocol, version 1.
//
// It owns the protocol's methods and updates: sessions, prompts, permissions, modes and options. A session is a thread. It does not know
// how a thread runs, where it is stored, or which editor is connected. It asks editors to read no files and to open no terminals:
// version 2 of the protocol drops that.
//
// Start with [Serve]. The messages have the types of github.com/coder/acp-go-sdk; they travel over package rpc, which keeps their
// order, so that a cancellation never overtakes the prompt that it is about.
package acp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/hashicorp/go-hclog"
)

// Config configures an agent. Hub is required.
type Config struct {
	Hub     *hub.Hub
	Version string
	// Workspace is what sessions have in common: their settings and profile. Dir is the folder whose configuration names the logins.
	Workspace hub.Workspace
	// Login is the command that logs in to a provider, without the provider's name; empty: editors offer no login.
	Login  []string
	Logger hclog.Logger // nil: none
}

// Serve serves an editor until it closes the stream or ctx ends. Threads continue until the hub is closed.
func Serve(ctx context.Context, cfg Config, stream rpc.Stream) error {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &agent{cfg: cfg, log: cfg.Logger, life: ctx, sessions: map[acp.SessionId]*session{}, arrivals: map[acp.SessionId][]*arrival{}}
	a.conn = rpc.New(stream, rpc.Config{
		Versioned: true, Route: a.route, Handle: a.handle, Notified: a.notified, Answered: a.answered, Logger: cfg.Logger,
	})
	defer a.close(cancel)
	return a.conn.Serve(ctx)
}

// agent is one connection.
type agent struct {
	cfg  Config
	log  hclog.Logger
	conn *rpc.Conn
	life context.Context // of the connection
	work sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	client   acp.ClientCapabilities
	editor   string // its name
	sessions map[acp.SessionId]*session
	arrivals map[acp.SessionId][]*arrival // prompts that are not answered, in the order of arrival
}

// close ends everything that belongs to the connection.
func (a *agent) close(cancel context.CancelFunc) {
	a.mu.Lock()
	a.closed = true
	sessions := a.sessions
	a.sessions = nil
	a.mu.Unlock()
	cancel()
	for _, s := range sessions {
		s.close()
	}
	a.work.Wait()
}

// begin runs f in a goroutine that the end of the connection waits for. It returns false if the connection has ended.
func (a *agent) begin(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.work.Go(f)
	}
	return !a.closed
}

// handler answers a request. after runs when the response is queued, for updates that must follow it; nil: nothing.
type handler func(ctx context.Context, r *rpc.Request) (result any, after func(), err error)

// handlerOf returns the handler of a method; nil: there is no such method.
func (a *agent) handlerOf(method string) handler {
	switch method {
	case acp.AgentMethodInitialize:
		return with(a.initialize)
	case acp.AgentMethodAuthenticate:
		return with(a.authenticate)
	case acp.AgentMethodSessionNew:
		return with(a.newSession)
	case acp.AgentMethodSessionLoad:
		return with(a.loadSession)
	case acp.AgentMethodSessionResume:
		return with(a.resumeSession)
	case acp.AgentMethodSessionFork:
		return with(a.forkSession)
	case acp.AgentMethodSessionList:
		return with(a.listSessions)
	case acp.AgentMethodSessionClose:
		return with(a.closeSession)
	case acp.AgentMethodSessionSetMode:
		return with(a.setMode)
	case acp.AgentMethodSessionSetConfigOption:
		return with(a.setOption)
	}
	return nil
}

// with decodes the parameters for a handler.
func with[P any](f func(ctx context.Context, p P) (any, func(), error)) handler {
	return func(ctx context.Context, r *rpc.Request) (any, func(), error) {
		p, err := decode[P](r.Params)
		if err != nil {
			return nil, nil, err
		}
		return f(ctx, p)
	}
}

// decode decodes parameters. The error names the field.
func decode[P any](raw json.RawMessage) (p P, err error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	err = json.Unmarshal(raw, &p)
	if err == nil {
		return p, nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return p, invalid(wrong.Field, "it must not be a %s", wrong.Value)
	}
	return p, invalid("params", "%v", err)
}

// invalid returns an error about a field of a request.
func invalid(field, format string, args ...any) *rpc.Error {
	e := rpc.Errorf(rpc.InvalidParams, field+": "+format, args...)
	e.Data = map[string]any{"field": field}
	return e
}

// route lets the requests of a session run one after the other, and notes prompts as they arrive.
func (a *agent) route(method string, params json.RawMessage) rpc.Route {
	if method == acp.AgentMethodInitialize || method == acp.AgentMethodSessionList {
		return rpc.Route{}
	}
	id := sessionOf(params)
	if method == acp.AgentMethodSessionPrompt {
		a.arrive(id)
	}
	if method == acp.AgentMethodSessionClose {
		return rpc.Route{Urgent: true} // it ends what the others wait for
	}
	return rpc.Route{Key: string(id)}
}

// sessionOf returns the session that parameters name.
func sessionOf(params json.RawMessage) acp.SessionId {
	var p struct{ SessionID string }
	_ = json.Unmarshal(params, &p) // the handler refuses it
	return acp.SessionId(p.SessionID)
}

// handle answers a request.
func (a *agent) handle(ctx context.Context, r *rpc.Request) {
	if r.Method == acp.AgentMethodSessionPrompt { // its response is part of the session's updates
		a.prompt(ctx, r)
		return
	}
	h := a.handlerOf(r.Method)
	if h == nil {
		r.Fail(rpc.Errorf(rpc.MethodNotFound, "method not found: %s", r.Method))
		return
	}
	result, after, err := h(ctx, r)
	if err != nil {
		r.Fail(wireError(err))
	} else {
		r.Reply(result)
	}
	if after != nil {
		after()
	}
}

// authRequired is the code of the error that makes editors offer a login.
const authRequired = -32000

// wireError converts an error: the message, and as data the kind of error and the next step.
func wireError(err error) error {
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		return e
	}
	e := hub.ErrorOf(err)
	code := int64(rpc.Internal)
	if e.Code != "" {
		code = rpc.InvalidParams
	}
	out := rpc.Errorf(code, "%s", hint.Line(e.Message, e.Next)) // editors show only the message
	if e.Code != "" || e.Next != "" {
		out.Data = map[string]any{"kind": e.Code, "next": e.Next}
	}
	return out
}

// notified takes a notification. Unknown ones are ignored.
func (a *agent) notified(_ context.Context, method string, params json.RawMessage) {
	switch method {
	case acp.AgentMethodSessionCancel:
		a.cancelled(sessionOf(params))
	case cancelRequest:
		a.withdrawn(params)
	}
}

// send sends a notification about a session. It waits while the editor does not read, and reports whether the connection still exists.
func (a *agent) send(method string, params any) bool {
	err := a.conn.Notify(a.life, rpc.Notification{Method: method, Params: params})
	if err != nil && a.life.Err() == nil && !errors.Is(err, rpc.ErrClosed) {
		a.log.Error("notification not sent", "method", method, "err", err)
		return true
	}
	return err == nil
}
