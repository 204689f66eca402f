package threadsocket

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

// ErrGone means that the host that ran the thread has ended or is ending.
var ErrGone = errors.New("the host that runs the thread is gone")

// ErrLagged means that the client was too slow for the host, which has ended the subscription. A new connection can subscribe after the
// last event.
var ErrLagged = errors.New("this client fell behind the running host")

// Client is a connection to a thread that another process runs.
type Client struct {
	rpc *jsonrpc2.Conn
	pid int // of the host; 0: the system does not tell

	events chan event.Event
	ended  chan struct{}
	once   sync.Once
	err    error // set before ended is closed

	watching sync.WaitGroup
	heard    atomic.Bool // a message arrived since the last check
	stalled  atomic.Bool // the queue is full, so no messages are read
	pinging  atomic.Bool
}

// clientQueue is the number of events that wait for Next. If the queue is full, the connection is not read, including answers:
// after Subscribe, a client must keep calling Next.
const clientQueue = 256

// Dial connects to a run socket. If no process listens on the socket, the error is [ErrGone]; if the process does not answer, it
// is a [*SilentError]. In both cases, nothing was requested.
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
	// The kernel accepts connections for a stopped process, so only an answer shows that the host is running.
	err = c.rpc.Call(ctx, methodPing, nil, nil)
	if _, older := errors.AsType[*jsonrpc2.Error](err); err == nil || older { // an older host answers that there is no such method
		return c, nil
	}
	err = c.asked(err)
	_ = c.Close() // nothing was sent on it
	return nil, err
}

func newClient(ctx context.Context, conn net.Conn, pid int) *Client {
	c := &Client{pid: pid, events: make(chan event.Event, clientQueue), ended: make(chan struct{})}
	// The reading goroutine handles notifications, so they keep the order of the events.
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
		c.end(ErrLagged)
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

// More reports whether the next event is already there.
func (c *Client) More() bool { return len(c.events) > 0 }

// rest returns the events that arrived before the end, then the error.
func (c *Client) rest() (event.Event, error) {
	select {
	case e := <-c.events:
		return e, nil
	default:
		return event.Event{}, c.err
	}
}

// call sends a request to the host.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	return c.asked(c.rpc.Call(ctx, method, params, result))
}

// asked converts the result of a request: an error of the host loses the protocol's wrapping.
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

// Subscribe requests events; [Client.Next] returns them.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams) (r SubscribeResult, err error) {
	err = c.call(ctx, methodSubscribe, p, &r)
	return r, err
}

// Start sends a user's input.
func (c *Client) Start(ctx context.Context, p StartParams) (r StartResult, err error) {
	err = c.call(ctx, methodStart, p, &r)
	return r, err
}

// Steer sends a user's input to the turn that they see. If it returns an error, the input was not accepted.
func (c *Client) Steer(ctx context.Context, p SteerParams) (r StartResult, err error) {
	err = c.call(ctx, methodSteer, p, &r)
	return r, err
}

// Compact shortens the thread's history in a turn of its own. A running turn is stopped.
func (c *Client) Compact(ctx context.Context) (r StartResult, err error) {
	err = c.call(ctx, methodCompact, nil, &r)
	return r, err
}

// Configure changes the settings of the thread's later turns. It returns when they apply.
func (c *Client) Configure(ctx context.Context, p Settings) error {
	return c.call(ctx, methodSettings, p, nil)
}

// Shell runs a command of the user.
func (c *Client) Shell(ctx context.Context, p ShellParams) (r ShellResult, err error) {
	err = c.call(ctx, methodShell, p, &r)
	return r, err
}

// Review starts a review of changes in a turn of its own.
func (c *Client) Review(ctx context.Context, p ReviewParams) (r StartResult, err error) {
	err = c.call(ctx, methodReview, p, &r)
	return r, err
}

// Interrupt ends the running turn. A host of an earlier version ignores p.
func (c *Client) Interrupt(ctx context.Context, p InterruptParams) error {
	return c.call(ctx, methodInterrupt, p, nil)
}

// Settings returns the settings of the thread. A host of an earlier version does not know the method.
func (c *Client) Settings(ctx context.Context) (r Settings, err error) {
	err = c.call(ctx, methodCurrent, nil, &r)
	return r, err
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

// Close closes the connection. The thread continues.
func (c *Client) Close() error {
	c.end(ErrGone)
	defer c.watching.Wait()
	return c.rpc.Close()
}
