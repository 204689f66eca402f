package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Config configures a connection.
type Config struct {
	// Dial connects to a server, or starts one. It is called again after the connection was lost.
	Dial func(ctx context.Context) (rpc.Stream, error)
	Info protocol.ClientInfo
	// Methods are the requests of the server that the client can answer.
	Methods []string
	// Event is called for everything that happens, in order. While it blocks, nothing is read.
	Event func(Event)
}

// Event is [Connected], [Disconnected], [Notified] or [Asked].
type Event interface{ event() }

// Connected says that calls reach a server, for the first time or again.
type Connected struct{ Server protocol.InitializeResponse }

// Disconnected says that the connection was lost, or could not be established, and is tried again, unless [Conn.Run] returns.
type Disconnected struct{ Err error }

// Notified is a notification of the server.
type Notified struct{ rpc.Notification }

// Asked is a request of the server, which [Conn.Answer] answers.
type Asked struct{ Question Question }

func (Connected) event()    {}
func (Disconnected) event() {}
func (Notified) event()     {}
func (Asked) event()        {}

// Conn is a connection to a server. Its methods may be called concurrently.
type Conn struct {
	cfg Config

	mu    sync.Mutex
	ready chan struct{} // closed while up is set
	up    *rpc.Client   // nil: not connected
	asked map[string]request
	// resolved are the questions that were answered elsewhere before they arrived.
	resolved map[string]bool

	events sync.Mutex // held while Config.Event runs
}

// New returns a connection, which does nothing before [Conn.Run].
func New(cfg Config) *Conn {
	return &Conn{cfg: cfg, ready: make(chan struct{}), asked: map[string]request{}, resolved: map[string]bool{}}
}

// The pauses between attempts to connect, and how often a server may be lost before it has answered at all.
const (
	firstPause  = 100 * time.Millisecond
	longest     = 5 * time.Second
	maxFailures = 5
)

// Run connects, and connects again whenever the connection ends. It returns when ctx ends, and with an error if a server could not be
// reached several times in a row.
func (c *Conn) Run(ctx context.Context) error {
	pause, failures := firstPause, 0
	for {
		served, err := c.serve(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if served {
			pause, failures = firstPause, 0
		} else if failures++; failures >= maxFailures {
			return err
		}
		c.event(Disconnected{err})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// serve holds one connection until it ends, and reports whether it was ever up.
func (c *Conn) serve(ctx context.Context) (up bool, err error) {
	stream, err := c.cfg.Dial(ctx)
	if err != nil {
		return false, err
	}
	cl := rpc.NewClient(stream, rpc.ClientConfig{
		Notified: c.notified, Handle: c.handle,
	})
	greeted := make(chan error, 1)
	go func() { // ends with the connection; serve waits for it
		greeted <- c.greet(ctx, cl)
	}()
	served := cl.Serve(ctx)
	_ = stream.Close()
	err = <-greeted
	c.mu.Lock()
	if c.up == cl {
		c.up, c.ready = nil, make(chan struct{})
	}
	clear(c.asked)
	clear(c.resolved)
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	return true, cmp.Or(served, rpc.ErrClosed)
}

// greet introduces the client, and lets calls through.
func (c *Conn) greet(ctx context.Context, cl *rpc.Client) error {
	var server protocol.InitializeResponse
	done := make(chan error, 1)
	err := cl.Start(ctx, protocol.MethodInitialize.Name, protocol.InitializeParams{
		ClientInfo:   c.cfg.Info,
		Capabilities: &protocol.InitializeCapabilities{ExperimentalAPI: true, ServerRequestMethods: c.cfg.Methods},
	}, func(result json.RawMessage, err error) { // before whatever follows the answer
		if err == nil {
			err = json.Unmarshal(result, &server)
		}
		if err == nil {
			c.event(Connected{server})
		}
		done <- err
	})
	if err == nil {
		err = <-done
	}
	if err == nil {
		err = cl.Notify(ctx, "initialized", nil)
	}
	if err != nil {
		return fmt.Errorf("the server did not answer: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = cl
	close(c.ready)
	return nil
}

// Call calls a method and waits for its result, at first until the connection is up.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	for {
		c.mu.Lock()
		up, ready := c.up, c.ready
		c.mu.Unlock()
		if up != nil {
			return up.Call(ctx, method, params, result)
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// request is a request of the server that waits for its answer.
type request struct {
	*rpc.Request
	settled chan struct{} // closed with the answer
}

// handle passes a request on, and keeps it until it is answered here or elsewhere.
func (c *Conn) handle(ctx context.Context, r *rpc.Request) {
	q, err := ParseQuestion(plainID(r.ID), r.Method, r.Params)
	if err != nil {
		r.Fail(err)
		return
	}
	r.Release()
	waiting := request{r, make(chan struct{})}
	c.mu.Lock()
	elsewhere := c.resolved[q.ID] // requests and notifications arrive on goroutines of their own
	if delete(c.resolved, q.ID); !elsewhere {
		if before, ok := c.asked[q.ID]; ok { // it is asked again, because its thread was resumed
			close(before.settled)
		}
		c.asked[q.ID] = waiting
	}
	c.mu.Unlock()
	if elsewhere {
		r.Fail(ErrGone)
		return
	}
	c.event(Asked{q})
	select {
	case <-waiting.settled:
	case <-ctx.Done():
		r.Fail(context.Cause(ctx))
	}
}

// maxResolved bounds the questions that were answered before they arrived. There is hardly ever one.
const maxResolved = 256

// notified passes a notification on.
func (c *Conn) notified(n rpc.Notification) {
	if n.Method == protocol.NotifyServerRequestResolved.Name {
		var p protocol.ServerRequestResolvedNotification
		if raw, ok := n.Params.(json.RawMessage); ok && json.Unmarshal(raw, &p) == nil {
			c.mu.Lock()
			r, known := c.asked[p.RequestID]
			delete(c.asked, p.RequestID)
			if !known && len(c.resolved) < maxResolved {
				c.resolved[p.RequestID] = true
			}
			c.mu.Unlock()
			if known {
				r.Fail(ErrGone)
				close(r.settled)
			}
		}
	}
	c.event(Notified{n})
}

// event calls the owner for one event after the other.
func (c *Conn) event(e Event) {
	c.events.Lock()
	defer c.events.Unlock()
	c.cfg.Event(e)
}

// plainID returns the ID of a request as notifications name it.
func plainID(id rpc.ID) string {
	var s string
	if json.Unmarshal([]byte(id.String()), &s) != nil {
		return id.String()
	}
	return s
}

// ErrGone says that a question can't be answered any more.
var ErrGone = errors.New("the question has been answered or withdrawn")

// Answer answers a question.
func (c *Conn) Answer(id string, result any) error {
	c.mu.Lock()
	r, ok := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	if !ok {
		return ErrGone
	}
	r.Reply(result)
	close(r.settled)
	return nil
}
