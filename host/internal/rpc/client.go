package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// ClientConfig configures a client.
type ClientConfig struct {
	// Notified is called for a notification of the server, in the order of arrival with the functions passed to [Client.Start]. Its
	// parameters are a json.RawMessage, or nil. While it blocks, nothing is read.
	Notified func(n Notification)
	// Handle answers a request of the server, as in [Config.Handle]. Nil: every request fails with [MethodNotFound].
	Handle func(ctx context.Context, r *Request)
	Logger hclog.Logger // nil: none
}

// Client is the other end of a connection: it calls methods and receives notifications and requests of the server. Its methods may be
// called concurrently.
type Client struct {
	conn *Conn

	mu      sync.Mutex
	last    int64 // id of the newest call
	pending map[ID]func(outcome)
}

type outcome struct {
	result json.RawMessage
	err    error
}

// NewClient returns a client over s. It does nothing before [Client.Serve].
func NewClient(s Stream, cfg ClientConfig) *Client {
	c := &Client{pending: map[ID]func(outcome){}}
	notified := cfg.Notified
	if notified == nil {
		notified = func(Notification) {}
	}
	c.conn = New(s, Config{Handle: cfg.Handle, Logger: cfg.Logger, Answered: c.answered, received: notified, Stall: -1, Linger: -1})
	return c
}

// Serve reads until the stream or ctx ends, like [Conn.Serve], also if the server no longer takes what the client sends. Calls that are not
// answered then fail with [ErrClosed].
func (c *Client) Serve(ctx context.Context) error {
	stop := make(chan struct{})
	failed := make(chan struct{})
	go func() { // owned by Serve, which waits for it
		defer close(failed)
		select {
		case <-c.conn.Done():
		case <-stop:
		}
		c.failPending()
	}()
	err := c.conn.Serve(ctx)
	close(stop)
	<-failed
	return err
}

// Done is closed when the connection ends.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// Call calls a method, waits for its result and decodes it into result, unless that is nil. The error is an [*Error] if the server has
// answered with one, [ErrClosed] if the connection has ended, and the cause of ctx if that has.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	arrived := make(chan outcome, 1)
	id, err := c.start(ctx, method, params, func(o outcome) { arrived <- o })
	if err != nil {
		return err
	}
	select {
	case o := <-arrived:
		return o.decode(method, result)
	case <-ctx.Done():
		c.take(id)
		return context.Cause(ctx)
	}
}

// Start calls a method without waiting for its result. It calls done with the result or an error, in the order of arrival with
// [ClientConfig.Notified]; while done blocks, nothing is read. If Start returns an error, done is not called.
func (c *Client) Start(ctx context.Context, method string, params any, done func(result json.RawMessage, err error)) error {
	_, err := c.start(ctx, method, params, func(o outcome) { done(o.result, o.err) })
	return err
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.conn.Notify(ctx, Notification{Method: method, Params: params})
}

func (c *Client) start(ctx context.Context, method string, params any, done func(outcome)) (ID, error) {
	c.mu.Lock()
	c.last++
	id := IntID(c.last)
	c.pending[id] = done
	c.mu.Unlock()
	err := c.conn.Request(ctx, id, method, params)
	if err != nil && c.take(id) == nil {
		err = nil // done has been called, because the connection has ended
	}
	return id, err
}

// take removes a call and returns its function, or nil if it has been removed already.
func (c *Client) take(id ID) func(outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.pending[id]
	delete(c.pending, id)
	return done
}

// failPending fails all calls. Those that come later are refused by the connection, which has ended.
func (c *Client) failPending() {
	c.mu.Lock()
	pending := c.pending
	c.pending = map[ID]func(outcome){}
	c.mu.Unlock()
	for _, done := range pending {
		done(outcome{err: ErrClosed})
	}
}

// answered receives a response.
func (c *Client) answered(id ID, result json.RawMessage, err *Error) {
	done := c.take(id)
	switch {
	case done == nil: // the caller no longer waits
	case err != nil:
		done(outcome{err: err})
	default:
		done(outcome{result: result})
	}
}

func (o outcome) decode(method string, into any) error {
	if o.err != nil || into == nil {
		return o.err
	}
	if err := json.Unmarshal(o.result, into); err != nil {
		return fmt.Errorf("decode the result of %s: %w", method, err)
	}
	return nil
}
