package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// client is one connection.
type client struct {
	server *Server
	conn   *rpc.Conn
	life   context.Context // of the connection
	end    context.CancelFunc
	work   sync.WaitGroup // subscriptions
	// launched: a host of this process has started the client. Its answers do not count, and it may only read.
	launched bool

	benching benching

	mu           sync.Mutex
	ready        bool // initialize has succeeded
	closed       bool
	info         protocol.ClientInfo
	experimental bool
	optOut       []string
	requests     []string // methods of the requests that the client can answer; nil: all
	subs         map[event.ThreadID]*subscription
	holding      map[event.ThreadID][]func() // broadcasts that follow a response
	views        map[string]*shown           // nil: none
	toolless     bool                        // the client has said that it does not know [protocol.RequestToolCall]
}

// call is a request that is being handled.
type call struct {
	*client
	request *rpc.Request
	after   []func() // run after the response
}

// afterwards runs f after the response has been sent, for notifications that must follow it.
func (c *call) afterwards(f func()) { c.after = append(c.after, f) }

// handler is a method.
type handler struct {
	spec *protocol.MethodSpec
	run  func(ctx context.Context, c *call, params json.RawMessage) (any, error)
}

// on adds the handler of a method.
func on[P, R any](handlers map[string]handler, m protocol.Method[P, R], f func(ctx context.Context, c *call, p P) (R, error)) {
	handlers[m.Name] = handler{m.MethodSpec, func(ctx context.Context, c *call, raw json.RawMessage) (any, error) {
		p, err := m.Decode(raw)
		if err != nil {
			return nil, invalidParams(err)
		}
		if what := protocol.NeedsExperimental(m.MethodSpec, raw); what != "" && c.stable() {
			return nil, rpc.Errorf(rpc.InvalidRequest, "%s requires experimentalApi capability", what)
		}
		return f(ctx, c, p)
	}}
}

// invalidParams refuses the parameters of a request.
func invalidParams(err error) error {
	e := rpc.Errorf(rpc.InvalidParams, "Invalid request: %v", err)
	e.Data = dataOf("invalid_params", err)
	return e
}

// route orders requests by the thread or resource that they are about. Requests that stop something overtake those that wait.
func (c *client) route(method string, params json.RawMessage) rpc.Route {
	h, ok := c.server.handlers[method]
	if !ok {
		return rpc.Route{}
	}
	return rpc.Route{Key: keyOf(h.spec.Key, params), Shared: h.spec.Key.Shared, Urgent: urgent(method)}
}

// keyOf returns the key of a request whose parameters are not decoded yet. If they lack the field, the handler refuses them.
func keyOf(k protocol.Key, params json.RawMessage) string {
	if k.Field == "" {
		return k.Family
	}
	return k.Family + ":" + string(rpc.Member(params, k.Field))
}

// handle answers a request.
func (c *client) handle(ctx context.Context, r *rpc.Request) {
	h, ok := c.server.handlers[r.Method]
	if !ok {
		r.Fail(rpc.Errorf(rpc.MethodNotFound, "method not found: %s", r.Method))
		return
	}
	if !c.initialized() && r.Method != protocol.MethodInitialize.Name {
		r.Fail(rpc.Errorf(rpc.InvalidRequest, "Not initialized"))
		return
	}
	if c.launched && !h.spec.Reads {
		c.server.log.Warn("a process that this host has started was refused", "method", r.Method)
		e := rpc.Errorf(rpc.InvalidRequest, "a process that the host has started may only read threads")
		e.Data = protocol.ErrorData{Kind: string(hub.Foreign)}
		r.Fail(e)
		return
	}
	call := &call{client: c, request: r}
	result, err := h.run(ctx, call, r.Params)
	var raw json.RawMessage
	if err == nil {
		raw, err = c.encode(result)
	}
	if err != nil {
		r.Fail(wireError(err))
	} else {
		r.Reply(raw)
	}
	for _, f := range call.after {
		f()
	}
}

// stable reports whether the client has not declared the capability experimentalApi.
func (c *client) stable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.experimental
}

// encode returns a message as JSON, without experimental fields unless the client has asked for them.
func (c *client) encode(v any) (json.RawMessage, error) {
	if c.stable() {
		return protocol.MarshalStable(v)
	}
	return protocol.Marshal(v)
}

func (c *client) initialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// optedOut reports whether the client does not want a notification, or may not have it.
func (c *client) optedOut(method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.optOut, method) || !c.experimental && protocol.IsExperimentalNotification(method)
}

func (c *client) subscribed(id event.ThreadID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subs[id] != nil
}

// send sends a notification that is about this connection alone.
func (c *client) send(method string, params any) {
	if c.optedOut(method) {
		return
	}
	raw, err := c.encode(params)
	if err != nil {
		c.server.log.Error("notification not sent", "method", method, "err", err)
		return
	}
	_ = c.conn.Notify(c.life, rpc.Notification{Method: method, Params: raw, EmittedAtMs: now()}) // the client may be gone
}

// post sends a broadcast. What a request of this connection changes follows its response; the status of the thread does not wait.
func (c *client) post(thread event.ThreadID, key string, n rpc.Notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting, held := c.holding[thread]
	if held && n.Method != protocol.NotifyThreadStatusChanged.Name && n.Method != protocol.NotifyThreadClosed.Name {
		c.holding[thread] = append(waiting, func() { c.conn.Post(key, n) })
		return
	}
	c.conn.Post(key, n)
}

// holdBroadcasts holds the broadcasts about a thread back until the returned function is called. Requests about a thread run one at a time.
func (c *client) holdBroadcasts(id event.ThreadID) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holding == nil {
		c.holding = map[event.ThreadID][]func(){}
	}
	c.holding[id] = nil
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, post := range c.holding[id] {
			post()
		}
		delete(c.holding, id)
	}
}

// close ends everything that belongs to the connection. Threads and their questions continue.
func (c *client) close() {
	c.end()
	c.server.mu.Lock()
	delete(c.server.mu.clients, c)
	c.server.mu.Unlock()
	c.mu.Lock()
	c.closed = true
	subs, views := c.subs, c.views
	c.subs, c.views = nil, nil
	c.mu.Unlock()
	for _, s := range subs {
		s.close()
	}
	for _, v := range views {
		v.view.Close()
	}
	c.closeBench()
	c.work.Wait()
}

func (s *Server) initialize(_ context.Context, c *call, p protocol.InitializeParams) (protocol.InitializeResponse, error) {
	if !validClientName(p.ClientInfo.Name) {
		return protocol.InitializeResponse{}, rpc.Errorf(rpc.InvalidRequest, "Invalid clientInfo.name: '%s'. Must be a valid HTTP header value.", p.ClientInfo.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready {
		return protocol.InitializeResponse{}, rpc.Errorf(rpc.InvalidRequest, "Already initialized")
	}
	c.ready, c.info = true, p.ClientInfo
	if p.Capabilities != nil {
		c.experimental, c.optOut = p.Capabilities.ExperimentalAPI, p.Capabilities.OptOutNotificationMethods
		c.requests = p.Capabilities.ServerRequestMethods
		c.toolless = !c.answersLocked(protocol.RequestToolCall.Name)
	}
	c.afterwards(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.life.Err() == nil {
			s.mu.clients[c.client] = true
		}
	})
	name := p.ClientInfo.Name
	return protocol.InitializeResponse{
		UserAgent:       fmt.Sprintf("%s/%s+gantry.%s (%s; %s) (%s; %s)", name, protocol.Version, buildOf(s.cfg.Version), runtime.GOOS, runtime.GOARCH, name, p.ClientInfo.Version),
		CodexHome:       s.cfg.Home,
		PlatformFamily:  platformFamily(),
		PlatformOS:      platformOS(),
		ProtocolVersion: protocol.Version,
		Methods:         s.methodNames(c.experimental),
	}, nil
}

// buildOf returns a version as part of build metadata, which has only letters, digits, dots and dashes.
func buildOf(version string) string {
	b := []byte(version)
	for i, ch := range b {
		if !('0' <= ch && ch <= '9' || 'a' <= ch && ch <= 'z' || 'A' <= ch && ch <= 'Z' || ch == '.') {
			b[i] = '-'
		}
	}
	return string(b)
}

func platformFamily() string {
	if runtime.GOOS == "windows" {
		return "windows"
	}
	return "unix"
}

func platformOS() string {
	if runtime.GOOS == "darwin" {
		return "macos"
	}
	return runtime.GOOS
}

// validClientName reports whether a name is a value of an HTTP header: visible ASCII, spaces and tabs, or bytes above ASCII.
func validClientName(name string) bool {
	for i := range len(name) {
		if ch := name[i]; ch < ' ' && ch != '\t' || ch == 0x7f {
			return false
		}
	}
	return true
}

// methodNames returns the names of the methods that a client may use.
func (s *Server) methodNames(experimental bool) []string {
	var names []string
	for name, h := range s.handlers {
		if experimental || !h.spec.Experimental {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// wireError converts an error for a client: the message, and as data the kind of error and the next step. Errors of requests are those
// that the client can avoid.
func wireError(err error) error {
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		if _, next := hint.Split(err); next != "" && e.Data == nil {
			with := *e
			with.Data = protocol.ErrorData{Next: &next}
			e = &with
		}
		return e
	}
	e := hub.ErrorOf(err)
	code := int64(rpc.InvalidRequest)
	if e.Code == "" && e.Next == "" { // what the user can act on is a refusal
		code = rpc.Internal
	}
	out := rpc.Errorf(code, "%s", e.Message)
	if e.Code != "" || e.Next != "" {
		out.Data = protocol.ErrorData{Kind: string(e.Code), Next: orNull(e.Next)}
	}
	return out
}

// dataOf returns the data of an error: its kind, and its next step.
func dataOf(kind string, err error) protocol.ErrorData {
	_, next := hint.Split(err)
	return protocol.ErrorData{Kind: kind, Next: orNull(next)}
}

// gate holds notifications back while requests are handled whose responses must precede what they cause.
type gate struct {
	mu     sync.Mutex
	open   chan struct{} // closed while nothing is held
	holder int
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// hold closes the gate until the returned function is called.
func (g *gate) hold() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holder == 0 {
		g.open = make(chan struct{})
	}
	g.holder++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.holder--; g.holder == 0 {
			close(g.open)
		}
	})
}

// pass waits until the gate is open. It returns false if ctx ends first.
func (g *gate) pass(ctx context.Context) bool {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		select {
		case <-open:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
