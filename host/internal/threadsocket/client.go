package threadsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/view"
)

// Client is a client of a thread that another process runs. Its methods may be called concurrently, except for Next.
type Client struct {
	process *Process
	owned   bool // the connection is this client's
	thread  event.ThreadID
	id      uint64 // of its subscription

	events chan event.Event
	ended  chan struct{}
	once   sync.Once
	err    error // set before ended is closed

	view *view.Inbox // the updates of a view; nil: none was opened

	taken      int // events that were not reported as received; of Next
	subscribed sync.Once
}

// Dial connects to the socket of a thread, whose name the path ends with. The errors are those of [Connect].
func Dial(ctx context.Context, socket string) (*Client, error) {
	id, err := event.ParseThreadID(strings.TrimSuffix(filepath.Base(socket), ".sock"))
	if err != nil {
		return nil, fmt.Errorf("%s is not the socket of a thread: %w", socket, err)
	}
	p, err := Connect(ctx, socket)
	if err != nil {
		return nil, err
	}
	c := p.Thread(id)
	c.owned = true
	return c, nil
}

func (c *Client) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.ended)
	})
}

// Next waits for an event of the subscription.
func (c *Client) Next(ctx context.Context) (event.Event, error) {
	select {
	case e := <-c.events:
		return e, c.took(ctx)
	default:
	}
	select {
	case e := <-c.events:
		return e, c.took(ctx)
	case <-c.ended:
	case <-ctx.Done():
		return event.Event{}, context.Cause(ctx)
	}
	select { // what arrived before the end
	case e := <-c.events:
		return e, nil
	default:
		return event.Event{}, c.err
	}
}

// took makes room for more events. A connection that has ended says so after those that have arrived.
func (c *Client) took(ctx context.Context) error {
	if c.taken++; c.taken < Window/4 {
		return nil
	}
	err := c.process.rpc.Notify(ctx, noteReceived, receivedNote{c.id, c.taken})
	if err == nil {
		c.taken = 0
	}
	return nil // it is reported with the next event
}

// More reports whether the next event is already there.
func (c *Client) More() bool { return len(c.events) > 0 }

func (c *Client) target() OfThread { return OfThread{c.thread} }

// call sends a request to the host. An error of the host loses the protocol's wrapping.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	err := c.process.call(ctx, method, params, result)
	if said, ok := errors.AsType[*rpc.Error](err); ok {
		return errorOf(said)
	}
	return err
}

var errTwice = errors.New("this client is subscribed already")

// Subscribe requests events; [Client.Next] returns them. A client subscribes once.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams) (r SubscribeResult, err error) {
	err = errTwice
	c.subscribed.Do(func() {
		p.Thread, p.Subscription = c.thread, c.id
		err = c.call(ctx, methodSubscribe, p, &r)
	})
	return r, err
}

// leaveTime is how long a client that leaves tries to say so.
const leaveTime = time.Second

// Close ends the subscription, and the connection if it was made by [Dial]. The thread continues.
func (c *Client) Close() error {
	c.end(ErrGone)
	c.process.forget(c)
	if c.owned {
		c.process.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = c.process.rpc.Notify(ctx, noteUnsubscribe, receivedNote{Subscription: c.id}) // the process may have ended
	return nil
}

// Start sends a user's input.
func (c *Client) Start(ctx context.Context, p StartParams) (r StartResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodStart, p, &r)
	return r, err
}

// Steer sends a user's input to the turn that they see. If it returns an error, the input was not accepted.
func (c *Client) Steer(ctx context.Context, p SteerParams) (r StartResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodSteer, p, &r)
	return r, err
}

// Compact shortens the thread's history in a turn of its own. A running turn is stopped.
func (c *Client) Compact(ctx context.Context) (r StartResult, err error) {
	err = c.call(ctx, methodCompact, c.target(), &r)
	return r, err
}

// Configure changes the settings of the thread's later turns. It returns when they apply.
func (c *Client) Configure(ctx context.Context, p Settings) error {
	return c.call(ctx, methodConfigure, ConfigureParams{c.target(), p}, nil)
}

// Shell runs a command of the user.
func (c *Client) Shell(ctx context.Context, p ShellParams) (r ShellResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodShell, p, &r)
	return r, err
}

// Review starts a review of changes in a turn of its own.
func (c *Client) Review(ctx context.Context, p ReviewParams) (r StartResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodReview, p, &r)
	return r, err
}

// Interrupt ends the running turn.
func (c *Client) Interrupt(ctx context.Context, p InterruptParams) error {
	p.Thread = c.thread
	return c.call(ctx, methodInterrupt, p, nil)
}

// Settings returns the settings of the thread.
func (c *Client) Settings(ctx context.Context) (r Settings, err error) {
	err = c.call(ctx, methodSettings, c.target(), &r)
	return r, err
}

// Answer answers a question; the first answer wins.
func (c *Client) Answer(ctx context.Context, p AnswerParams) error {
	p.Thread = c.thread
	return c.call(ctx, methodAnswer, p, nil)
}

// Plugins lists the plugins of the running host.
func (c *Client) Plugins(ctx context.Context) (r []PluginStatus, err error) {
	err = c.call(ctx, methodPlugins, c.target(), &r)
	return r, err
}

// Command runs a command of a plugin and returns its output.
func (c *Client) Command(ctx context.Context, p CommandParams) (r json.RawMessage, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodCommand, p, &r)
	return r, err
}

// Reload replaces a plugin's process.
func (c *Client) Reload(ctx context.Context, p ReloadParams) error {
	p.Thread = c.thread
	return c.call(ctx, methodReload, p, nil)
}
