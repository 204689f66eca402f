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
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// ErrGone means that the process that ran the thread has ended or is ending, or that the thread has.
var ErrGone = errors.New("the host that runs the thread is gone")

// ErrLagged means that the client was too slow for the host, which has ended the subscription. A new one can continue after the last
// event.
var ErrLagged = errors.New("this client fell behind the running host")

// Process is a connection to a process that runs threads. Its methods may be called concurrently.
type Process struct {
	rpc  *rpc.Client
	pid  int // 0: the system does not tell
	stop context.CancelFunc
	work sync.WaitGroup

	heard   atomic.Bool // something arrived since the last check
	pinging atomic.Bool

	mu struct {
		sync.Mutex
		err     error // why it has ended; nil: it has not
		last    uint64
		clients map[uint64]*Client // by their subscription
	}
}

// Connect connects to the process to which the socket of a thread leads. If no process listens on it, the error is [ErrGone]; if the
// process does not answer, it is a [*SilentError]; if it is of an older version, an [*OlderError]. In all cases, nothing was requested.
func Connect(ctx context.Context, socket string) (*Process, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrGone, err)
	}
	pid := 0
	if peer, err := wire.PeerOf(conn); err == nil {
		pid = peer.PID
	}
	p := newProcess(ctx, conn, pid)
	// The kernel accepts connections for a stopped process, so only an answer shows that the host is running.
	err = p.call(ctx, methodPing, nil, nil)
	if err == nil {
		return p, nil
	}
	if e, ok := errors.AsType[*rpc.Error](err); ok && e.Code == rpc.MethodNotFound {
		err = &OlderError{PID: pid}
	}
	p.Close()
	return nil, err
}

func newProcess(ctx context.Context, conn net.Conn, pid int) *Process {
	p := &Process{pid: pid}
	p.mu.clients = map[uint64]*Client{}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.rpc = rpc.NewClient(rpc.Lines(conn, conn, conn), rpc.ClientConfig{Notified: p.notified})
	p.work.Go(func() { // ends with the connection
		_ = p.rpc.Serve(ctx) // calls and subscriptions get ErrGone, or what fail says
		p.fail(ErrGone)
	})
	p.work.Go(func() { p.watch(ctx) }) // ends with the connection
	return p
}

// fail ends all subscriptions for a reason, unless there was another one before.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err == nil {
		p.mu.err = err
	}
	for _, c := range p.mu.clients {
		c.end(p.mu.err)
	}
}

// Done is closed when the connection has ended.
func (p *Process) Done() <-chan struct{} { return p.rpc.Done() }

// Close closes the connection. The threads continue.
func (p *Process) Close() {
	p.fail(ErrGone)
	p.stop()
	p.work.Wait()
}

// Thread returns a client of a thread that the process runs. Closing it leaves the connection open.
func (p *Process) Thread(id event.ThreadID) *Client {
	c := &Client{process: p, thread: id, events: make(chan event.Event, Window), ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.last++
	c.id = p.mu.last
	p.mu.clients[c.id] = c
	if p.mu.err != nil {
		c.end(p.mu.err)
	}
	return c
}

func (p *Process) forget(c *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.clients, c.id)
}

// call sends a request.
func (p *Process) call(ctx context.Context, method string, params, result any) error {
	err := p.rpc.Call(ctx, method, params, result)
	if errors.Is(err, rpc.ErrClosed) {
		p.fail(ErrGone) // unless there is a better reason
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mu.err
	}
	if err == nil {
		p.heard.Store(true)
	}
	return err
}

// notified receives a notification. It never waits: a client has room for all events that the process may send.
func (p *Process) notified(n rpc.Notification) {
	p.heard.Store(true)
	params, _ := n.Params.(json.RawMessage)
	switch n.Method {
	case noteEvent:
		var m struct {
			Subscription uint64
			Event        json.RawMessage
		}
		if json.Unmarshal(params, &m) != nil {
			return
		}
		c := p.client(m.Subscription)
		if c == nil { // it has been closed
			return
		}
		var e event.Event
		if err := json.Unmarshal(m.Event, &e); err != nil {
			c.end(fmt.Errorf("event of the running host: %w", err))
			return
		}
		select {
		case c.events <- e:
		default:
			c.end(errors.New("the running host has sent more events than it may"))
		}
	case noteView:
		var m struct{ Subscription uint64 }
		if json.Unmarshal(params, &m) != nil {
			return
		}
		if c := p.client(m.Subscription); c != nil {
			c.updated(params)
		}
	case noteUnsubscribed:
		var m endNote
		if json.Unmarshal(params, &m) != nil {
			return
		}
		if c := p.client(m.Subscription); c != nil && m.Lagged {
			c.end(ErrLagged)
		} else if c != nil {
			c.end(ErrGone)
		}
	}
}

func (p *Process) client(subscription uint64) *Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.clients[subscription]
}
