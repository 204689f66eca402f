// Package rpc is one JSON-RPC connection of the app server.
//
// It owns the framing of messages, the order in which requests run and answers are sent, and the bounds of what a connection may hold:
// requests that were read ahead, messages that were not sent yet. It does not know any method, thread or subscription, and imports
// nothing of the host.
//
// Start with [Conn.Serve]. Everything that a connection starts has ended when Serve returns.
//
// The messages are those of codex's app server: JSON-RPC 2.0 without the member "jsonrpc", unless [Config] asks for it. Unlike codex, a connection answers what it
// cannot decode, and stops reading instead of refusing or dropping requests.
package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config configures a connection. Zero bounds are the defaults.
type Config struct {
	// Route decides when a request runs, before it is decoded further. It is called once per request, in the order of arrival, on
	// the goroutine that reads. Nil: every request is concurrent.
	Route func(method string, params json.RawMessage) Route
	// Handle answers a request with [Request.Reply] or [Request.Fail], on a goroutine of its own. It may continue after that, for
	// example to send notifications that must follow the response; the next request with its key waits until it has returned, or
	// has called [Request.Release]. If it returns or panics without an answer, the request fails with [Internal]. Its ctx ends with
	// the connection. Nil: every request fails with [MethodNotFound].
	Handle func(ctx context.Context, r *Request)
	// Notified is called for a notification of the client, in the order of arrival, on the goroutine that reads; it must not block.
	Notified func(ctx context.Context, method string, params json.RawMessage)
	// Answered is called for the client's response to a request of the server, on the goroutine that reads; it must not block. Either
	// result or err is nil. The id may be unknown.
	Answered func(id ID, result json.RawMessage, err *Error)
	Logger   hclog.Logger // nil: none

	received func(n Notification) // instead of Notified, for a client

	// Versioned adds the member "jsonrpc" to all messages, for clients that require it.
	Versioned bool

	MaxMessage    int           // bytes of a received message; default 128 MiB
	MaxRequests   int           // requests that wait or run; beyond, nothing is read; default 4,096
	MaxRead       int           // their bytes; default 8 MiB, and one message may exceed it
	MaxConcurrent int           // handlers that run, and as many urgent ones, without those that are released; default 64
	MaxUnsent     int           // bytes queued for sending beyond which Notify waits and no request is started; default 4 MiB
	MaxGarbage    int           // messages in a row that are no JSON-RPC, after which the connection is closed; default 100
	Stall         time.Duration // a queue above MaxUnsent without progress for so long closes the connection; default 10 min, negative: never
	Linger        time.Duration // after the end of the stream: how long requests may still complete; default 1 s, negative: not at all
}

// Route says when a request runs.
type Route struct {
	// Requests with the same key run one at a time, in the order of arrival. Those without a key run concurrently.
	Key string
	// Shared requests of a key run together if they are consecutive.
	Shared bool
	// Urgent requests run at once, before all that wait; Key and Shared are ignored. They start in the order of arrival.
	Urgent bool
}

// Notification is a message to the client without an answer.
type Notification struct {
	Method      string
	Params      any    // nil: left out; a json.RawMessage is sent as it is
	Seq         uint64 // number of the event that it reports; 0: left out
	Part        int    // position among the notifications of that event, from 1 on; 0, which is left out: no others of it follow
	EmittedAtMs int64  // Unix time; 0: left out
}

func (cfg Config) withDefaults() Config {
	set := func(v *int, to int) {
		if *v <= 0 {
			*v = to
		}
	}
	set(&cfg.MaxMessage, 128<<20)
	set(&cfg.MaxRequests, 4096)
	set(&cfg.MaxRead, 8<<20)
	set(&cfg.MaxConcurrent, 64)
	set(&cfg.MaxUnsent, 4<<20)
	set(&cfg.MaxGarbage, 100)
	if cfg.Stall == 0 {
		cfg.Stall = 10 * time.Minute
	}
	if cfg.Linger == 0 {
		cfg.Linger = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return cfg
}

// closeTimeout bounds how long a connection that ends waits for a client to read what is queued, and for its stream to close.
const closeTimeout = time.Second

// urgentFactor is how many times the bound of the outgoing queue it may contain while urgent requests are read and started.
const urgentFactor = 2

// Conn is one connection. Its methods may be called concurrently.
type Conn struct {
	cfg    Config
	log    hclog.Logger
	stream Stream
	out    *queue
	done   chan struct{}
	ctx    context.Context // of the handlers; set by Serve

	mu            sync.Mutex
	space         *sync.Cond // something was answered or sent, or the connection ends
	requests      scheduler
	running       int           // handlers, without urgent and released ones
	urgent        []*Request    // that wait
	runningUrgent int           // without released ones
	open          int           // requests that wait or run
	size          int           // their bytes
	ending        bool          // no more requests are taken
	idle          chan struct{} // closed when ending and open is 0
}

// New returns a connection over s. It does nothing before [Conn.Serve].
func New(s Stream, cfg Config) *Conn {
	c := &Conn{cfg: cfg.withDefaults(), stream: s, done: make(chan struct{}), idle: make(chan struct{})}
	c.log = c.cfg.Logger
	c.space = sync.NewCond(&c.mu)
	c.out = newQueue(c.cfg.MaxUnsent, c.cfg.Stall, c.sent)
	c.out.versioned = c.cfg.Versioned
	if s, ok := s.(interface{ configure(Config) }); ok {
		s.configure(c.cfg)
	}
	return c
}

// Notify sends n after everything that was sent before. It waits while the outgoing queue is above its bound, and returns an error if
// ctx or the connection ends before n is queued, or if its parameters cannot be encoded.
func (c *Conn) Notify(ctx context.Context, n Notification) error {
	e, err := n.envelope()
	if err != nil {
		return err
	}
	return c.out.wait(ctx, c.done, &e)
}

// Post sends n without waiting, for state of which only the newest value matters. If another notification with the same key is still
// queued, n takes its place. The caller bounds the number of keys.
func (c *Conn) Post(key string, n Notification) {
	e, err := n.envelope()
	if err != nil {
		c.log.Error("cannot encode a notification", "call", n.Method, "err", err)
		return
	}
	c.out.post(key, &e)
}

func (n Notification) envelope() (envelope, error) {
	e := envelope{method: n.Method, seq: n.Seq, part: n.Part, sentAt: n.EmittedAtMs}
	if n.Params == nil {
		return e, nil
	}
	var err error
	if e.params, err = encodeValue(n.Params); err != nil {
		err = fmt.Errorf("encode the parameters of %s: %w", n.Method, err)
	}
	return e, err
}

// Request sends a request of the server, ordered with [Conn.Notify], and like it waits for the queue. The response arrives at
// [Config.Answered].
func (c *Conn) Request(ctx context.Context, id ID, method string, params any) error {
	e, err := Notification{Method: method, Params: params}.envelope()
	if err != nil {
		return err
	}
	e.id = id
	return c.out.wait(ctx, c.done, &e)
}

// Done is closed when the connection ends: before Serve returns, when nothing more will be sent except answers to requests that run.
func (c *Conn) Done() <-chan struct{} { return c.done }
