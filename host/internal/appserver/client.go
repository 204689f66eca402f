package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/sourcegraph/jsonrpc2"
)

// ErrGone says that the host that ran the thread has ended, or ends.
var ErrGone = errors.New("the host that runs the thread is gone")

// Client reaches a thread that another process runs.
type Client struct {
	rpc *jsonrpc2.Conn
	pid int // of the host; 0: the system does not tell

	events chan event.Event
	ended  chan struct{}
	once   sync.Once
	err    error // set before ended is closed

	watching sync.WaitGroup
	heard    atomic.Bool // something arrived since the last look
	stalled  atomic.Bool // the queue is full: what arrives is not read
	pinging  atomic.Bool
}

// clientQueue is how many events wait for Next. Beyond it the connection waits, answers included: whoever subscribes
// calls Next, from then on.
const clientQueue = 256

// Dial connects to a run socket. A socket that nobody listens on is [ErrGone], a process that accepts and says nothing a
// [*SilentError]: nothing was asked of it then.
func Dial(ctx context.Context, socket string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrGone, err)
	}
	pid := 0
	if peer, err := wire.PeerOf(conn); err == nil {
		pid = peer.PID
	}
	c := newClient(ctx, conn, pid)
	// The kernel accepts on behalf of a process that is stopped, so only an answer tells that somebody is there.
	err = c.rpc.Call(ctx, methodPing, nil, nil)
	if _, older := errors.AsType[*jsonrpc2.Error](err); err == nil || older { // an older host says that it has no such method
		return c, nil
	}
	err = c.asked(err)
	_ = c.Close() // nothing was said on it
	return nil, err
}

func newClient(ctx context.Context, conn net.Conn, pid int) *Client {
	c := &Client{pid: pid, events: make(chan event.Event, clientQueue), ended: make(chan struct{})}
	// Notifications are handled on the reading goroutine: their order is that of the events.
	c.rpc = jsonrpc2.NewConn(context.WithoutCancel(ctx), jsonrpc2.NewPlainObjectStream(conn), handlerFunc(c.notified),
		jsonrpc2.OnRecv(func(*jsonrpc2.Request, *jsonrpc2.Response) { c.heard.Store(true) }))
	c.watching.Go(c.watch) // ends with the connection
	return c
}

func (c *Client) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.ended)
	})
}

func (c *Client) notified(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) {
	switch r.Method {
	case noteEvent:
		var e event.Event
		if r.Params == nil {
			return
		}
		if err := json.Unmarshal(*r.Params, &e); err != nil {
			c.end(fmt.Errorf("event of the running host: %w", err))
			return
		}
		select {
		case c.events <- e:
			return
		default:
		}
		c.stalled.Store(true)
		defer c.stalled.Store(false)
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
	case <-c.rpc.DisconnectNotify():
		c.end(ErrGone)
		return c.rest()
	case <-c.ended:
		return c.rest()
	case <-ctx.Done():
		return event.Event{}, context.Cause(ctx)
	}
}

// rest is what arrived before the end, then the end.
func (c *Client) rest() (event.Event, error) {
	select {
	case e := <-c.events:
		return e, nil
	default:
		return event.Event{}, c.err
	}
}

// call asks the host.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	return c.asked(c.rpc.Call(ctx, method, params, result))
}

// asked is how asking the host went. What it answers with is its own words, without those of the protocol.
func (c *Client) asked(err error) error {
	if said, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		return errorOf(said)
	}
	if errors.Is(err, jsonrpc2.ErrClosed) {
		c.end(ErrGone) // unless there is a better reason
		return c.err
	}
	return err
}

// Subscribe asks for events; [Client.Next] receives them.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams) (r SubscribeResult, err error) {
	err = c.call(ctx, methodSubscribe, p, &r)
	return r, err
}

// Start hands over what a user said.
func (c *Client) Start(ctx context.Context, p StartParams) (r StartResult, err error) {
	err = c.call(ctx, methodStart, p, &r)
	return r, err
}

// Steer hands over what a user said to the turn that they see. With an error nothing was taken.
func (c *Client) Steer(ctx context.Context, p SteerParams) (r StartResult, err error) {
	err = c.call(ctx, methodSteer, p, &r)
	return r, err
}

// Compact makes the thread's history shorter, in a turn of its own; a turn that runs is stopped for it.
func (c *Client) Compact(ctx context.Context) (r StartResult, err error) {
	err = c.call(ctx, methodCompact, nil, &r)
	return r, err
}

// Configure changes the thread for its turns to come, and returns when the change holds.
func (c *Client) Configure(ctx context.Context, p Settings) error {
	return c.call(ctx, methodSettings, p, nil)
}

// Shell runs a command of the user's.
func (c *Client) Shell(ctx context.Context, p ShellParams) (r ShellResult, err error) {
	err = c.call(ctx, methodShell, p, &r)
	return r, err
}

// Review has changes reviewed, in a turn of its own.
func (c *Client) Review(ctx context.Context, p ReviewParams) (r StartResult, err error) {
	err = c.call(ctx, methodReview, p, &r)
	return r, err
}

// Interrupt ends the running turn.
func (c *Client) Interrupt(ctx context.Context) error {
	return c.call(ctx, methodInterrupt, nil, nil)
}

// Answer answers a question; the first answer wins.
func (c *Client) Answer(ctx context.Context, p AnswerParams) error {
	return c.call(ctx, methodAnswer, p, nil)
}

// Plugins lists the plugins of the running host.
func (c *Client) Plugins(ctx context.Context) (r []PluginStatus, err error) {
	err = c.call(ctx, methodPlugins, nil, &r)
	return r, err
}

// Reload replaces a plugin's process.
func (c *Client) Reload(ctx context.Context, p ReloadParams) error {
	return c.call(ctx, methodReload, p, nil)
}

// Close ends the connection; the thread goes on.
func (c *Client) Close() error {
	c.end(ErrGone)
	defer c.watching.Wait()
	return c.rpc.Close()
}
