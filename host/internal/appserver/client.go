package appserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// ErrGone says that the host that ran the thread has ended, or ends.
var ErrGone = errors.New("the host that runs the thread is gone")

// Client reaches a thread that another process runs.
type Client struct {
	rpc  *jrpc2.Client
	conn net.Conn

	events chan event.Event
	ended  chan struct{}
	once   sync.Once
	err    error // set before ended is closed
}

// clientQueue is how many events wait for Next; beyond it the connection waits.
const clientQueue = 256

// Dial connects to a run socket. A socket that nobody listens on is [ErrGone].
func Dial(ctx context.Context, socket string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrGone, err)
	}
	c := &Client{conn: conn, events: make(chan event.Event, clientQueue), ended: make(chan struct{})}
	c.rpc = jrpc2.NewClient(channel.Line(conn, conn), &jrpc2.ClientOptions{
		OnNotify: c.notified,
		OnStop:   func(_ *jrpc2.Client, err error) { c.end(ErrGone) },
	})
	return c, nil
}

func (c *Client) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.ended)
	})
}

func (c *Client) notified(r *jrpc2.Request) {
	switch r.Method() {
	case noteEvent:
		var e event.Event
		if err := r.UnmarshalParams(&e); err != nil {
			c.end(fmt.Errorf("event of the running host: %w", err))
			return
		}
		select {
		case c.events <- e:
		case <-c.ended:
		}
	case noteLagged:
		c.end(errors.New("this client fell behind the running host"))
	}
}

// Next waits for an event of the subscription.
func (c *Client) Next(ctx context.Context) (event.Event, error) {
	select {
	case e := <-c.events:
		return e, nil
	default:
	}
	select {
	case e := <-c.events:
		return e, nil
	case <-c.ended:
		select { // what arrived before the end comes first
		case e := <-c.events:
			return e, nil
		default:
			return event.Event{}, c.err
		}
	case <-ctx.Done():
		return event.Event{}, context.Cause(ctx)
	}
}

// Subscribe asks for events; [Client.Next] receives them.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams) (r SubscribeResult, err error) {
	return r, c.rpc.CallResult(ctx, methodSubscribe, p, &r)
}

// Start hands over what a user said.
func (c *Client) Start(ctx context.Context, p StartParams) (r StartResult, err error) {
	return r, c.rpc.CallResult(ctx, methodStart, p, &r)
}

// Interrupt ends the running turn.
func (c *Client) Interrupt(ctx context.Context) error {
	_, err := c.rpc.Call(ctx, methodInterrupt, nil)
	return err
}

// Answer answers a question; the first answer wins.
func (c *Client) Answer(ctx context.Context, p AnswerParams) error {
	_, err := c.rpc.Call(ctx, methodAnswer, p)
	return err
}

// Plugins lists the plugins of the running host.
func (c *Client) Plugins(ctx context.Context) (r []PluginStatus, err error) {
	return r, c.rpc.CallResult(ctx, methodPlugins, nil, &r)
}

// Reload replaces a plugin's process.
func (c *Client) Reload(ctx context.Context, p ReloadParams) error {
	_, err := c.rpc.Call(ctx, methodReload, p)
	return err
}

// Close ends the connection; the thread goes on.
func (c *Client) Close() error {
	c.end(ErrGone)
	return c.rpc.Close()
}
