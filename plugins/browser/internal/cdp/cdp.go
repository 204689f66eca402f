// Package cdp is one connection to a browser over a pair of pipes, in the Chrome DevTools Protocol.
//
// It owns: frames, the assignment of answers to commands, the deadline of each command, and the distribution of events. It must not know:
// what any command or event means.
//
// Start with [New].
package cdp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
)

const (
	// defaultDeadline limits a command whose context has no earlier deadline.
	defaultDeadline = 30 * time.Second
	// maxQueued is the number of commands that wait until the browser reads them.
	maxQueued = 1024
	// pingAfter is how long a browser may be silent while it is expected to answer, before it is asked whether it is still there.
	pingAfter = 30 * time.Second
	// pingDeadline limits its answer.
	pingDeadline = 5 * time.Second
	// maxKept is the number of the latest events that are kept.
	maxKept = 400
	// maxSubscriptions is the number of subscriptions at a time.
	maxSubscriptions = 1000
	// maxBuffered is the number of events that wait in a subscription; more are dropped.
	maxBuffered = 256
)

// ErrClosed is the error of commands on a connection that has ended.
var ErrClosed = errors.New("the connection to the browser has ended")

// ErrSilent is why a connection has ended to a browser that no longer answers.
var ErrSilent = errors.New("the browser no longer answers")

// ErrBusy is the error of Post if the browser does not read commands.
var ErrBusy = errors.New("the browser does not read commands")

// Error is the browser's refusal of a command.
type Error struct {
	Method  string `json:"-"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code) }

// Event is an event of a session; that of the browser itself is "".
type Event struct {
	Session, Method string
	Params          jsonv2.Value
}

// Decode parses the parameters into out.
func (e Event) Decode(out any) error { return jsonv2.Unmarshal(e.Params, out, lenient) }

// lenient: what pages write may contain half of a surrogate pair.
var lenient = jsonv2.AllowInvalidUTF8(true)

// Options are the options of New.
type Options struct {
	// Adopted: another process has used the pipes before, and may have been interrupted within a frame.
	Adopted bool
	// Deadline limits commands; 0 means 30 seconds.
	Deadline time.Duration
	// PingAfter is how long the browser may be silent while commands wait for answers; 0 means 30 seconds.
	PingAfter time.Duration
	// PingDeadline limits the answer to a ping; 0 means 5 seconds. Without one, the connection ends.
	PingDeadline time.Duration
	// OnEvent is called with each event, one at a time and in order. It must not wait for the browser, but may call Post. Optional.
	OnEvent func(Event)
}

// Conn is a connection. It is safe for concurrent use.
type Conn struct {
	r    io.ReadCloser
	w    io.WriteCloser
	o    Options
	out  chan []byte
	done chan struct{} // closed when the connection has ended
	once sync.Once
	work sync.WaitGroup

	mu struct {
		sync.Mutex
		last  int64
		calls map[int64]func(answer)
		subs  map[*subscription]struct{}
		err   error
		heard time.Time // when the browser has sent something last
		kept  ring
	}
}

type answer struct {
	result json.RawMessage
	err    *Error
}

type subscription struct {
	session, method string
	events          chan jsonv2.Value
}

// message is a message of the browser.
type message struct {
	ID        int64           `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *Error          `json:"error"`
}

// command is a message to the browser.
type command struct {
	ID        int64        `json:"id"`
	SessionID string       `json:"sessionId,omitempty"`
	Method    string       `json:"method"`
	Params    jsonv2.Value `json:"params,omitempty"`
}

// New returns a connection over r, which the browser writes, and w, which it reads. Close it to end its goroutines.
func New(r io.ReadCloser, w io.WriteCloser, o Options) *Conn {
	if o.Deadline <= 0 {
		o.Deadline = defaultDeadline
	}
	if o.PingAfter <= 0 {
		o.PingAfter = pingAfter
	}
	if o.PingDeadline <= 0 {
		o.PingDeadline = pingDeadline
	}
	c := &Conn{r: r, w: w, o: o, out: make(chan []byte, maxQueued), done: make(chan struct{})}
	c.mu.calls, c.mu.subs = map[int64]func(answer){}, map[*subscription]struct{}{}
	c.mu.heard = time.Now()
	c.mu.last = rand.Int64N(1 << 29) // an earlier process may not have read all of its answers
	if o.Adopted {
		c.out <- nil // ends a command that was written in part: the browser answers it with an error without an ID
	}
	c.work.Go(c.write)
	c.work.Go(c.read)
	c.work.Go(c.ping)
	return c
}

// Root returns the session of the browser itself.
func (c *Conn) Root() *Session { return &Session{c: c} }

// Session returns the session with an ID.
func (c *Conn) Session(id string) *Session { return &Session{c: c, id: id} }

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// Close ends the connection, not the browser.
func (c *Conn) Close() {
	c.end(ErrClosed)
	c.work.Wait()
}

func (c *Conn) end(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.mu.err = err
		for s := range c.mu.subs {
			close(s.events)
		}
		c.mu.subs = nil
		c.mu.Unlock()
		close(c.done)
		_ = c.w.Close()
		_ = c.r.Close()
	})
}

func (c *Conn) write() {
	for {
		select {
		case b := <-c.out:
			if _, err := c.w.Write(append(b, 0)); err != nil {
				c.end(fmt.Errorf("%w: %w", ErrClosed, err))
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *Conn) read() {
	f := frames{r: bufio.NewReaderSize(c.r, 64<<10), most: maxFrame, skip: c.o.Adopted}
	for {
		b, err := f.next()
		if err != nil {
			c.end(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
		c.mu.Lock()
		c.mu.heard = time.Now()
		c.mu.Unlock()
		var m message
		if json.Unmarshal(b, &m) == nil {
			c.dispatch(m)
		}
	}
}

// ping ends the connection if the browser owes an answer, is silent, and does not answer a ping either. A page that is busy is not the
// browser, which answers for itself.
func (c *Conn) ping() {
	timer := time.NewTimer(c.o.PingAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.done:
			return
		}
		c.mu.Lock()
		rest := c.o.PingAfter - time.Since(c.mu.heard)
		owes := len(c.mu.calls) > 0
		c.mu.Unlock()
		if rest > 0 || !owes {
			timer.Reset(max(rest, c.o.PingAfter/4))
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.o.PingDeadline)
		err := c.Root().Call(ctx, "Browser.getVersion", protocol.Empty{}, &struct{}{})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			c.end(fmt.Errorf("%w: %w", ErrClosed, ErrSilent))
			return
		}
		timer.Reset(c.o.PingAfter)
	}
}

// Recent returns the latest events, the oldest first, for the search for errors.
func (c *Conn) Recent() []Kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.kept.all()
}

func (c *Conn) dispatch(m message) {
	if m.Method == "" {
		c.mu.Lock()
		waiting := c.mu.calls[m.ID]
		delete(c.mu.calls, m.ID)
		c.mu.Unlock()
		if waiting != nil {
			waiting(answer{m.Result, m.Error})
		}
		return
	}
	if c.o.OnEvent != nil {
		c.o.OnEvent(Event{m.SessionID, m.Method, jsonv2.Value(m.Params)})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.kept.add(Kept{time.Now(), m.SessionID, m.Method, len(m.Params)})
	for s := range c.mu.subs {
		if s.session == m.SessionID && s.method == m.Method {
			select {
			case s.events <- jsonv2.Value(m.Params):
			default:
			}
		}
	}
}

func (c *Conn) encode(session, method string, params any, waiting func(answer)) (id int64, b []byte, err error) {
	cmd := command{SessionID: session, Method: method}
	if cmd.Params, err = jsonv2.Marshal(params, lenient); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", method, err)
	}
	c.mu.Lock()
	c.mu.last++
	cmd.ID = c.mu.last
	if waiting != nil {
		c.mu.calls[cmd.ID] = waiting
	}
	c.mu.Unlock()
	b, err = jsonv2.Marshal(cmd, lenient)
	return cmd.ID, b, err
}

// Session is a session of a connection. It implements the Session of cdproto, over which typed commands run.
type Session struct {
	c  *Conn
	id string
}

var _ protocol.Session = (*Session)(nil)

// ID returns the session's ID; "" is the browser itself.
func (s *Session) ID() string { return s.id }

// Call sends a command and waits for its answer, until ctx ends or the connection's deadline has passed. A refusal is an *Error.
func (s *Session) Call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.o.Deadline, fmt.Errorf("the browser has not answered within %v: %w", s.c.o.Deadline, context.DeadlineExceeded))
	defer cancel()
	waiting := make(chan answer, 1)
	id, b, err := s.c.encode(s.id, method, params, func(a answer) { waiting <- a })
	defer func() {
		s.c.mu.Lock()
		delete(s.c.mu.calls, id)
		s.c.mu.Unlock()
	}()
	if err != nil {
		return err
	}
	select {
	case s.c.out <- b:
	case <-s.c.done:
		return fmt.Errorf("%s: %w", method, s.c.Err())
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
	select {
	case a := <-waiting:
		if a.err != nil {
			a.err.Method = method
			return a.err
		}
		if err := jsonv2.Unmarshal(a.result, result, lenient); err != nil {
			return fmt.Errorf("%s: the answer is invalid: %w", method, err)
		}
		return nil
	case <-s.c.done:
		return fmt.Errorf("%s: %w", method, s.c.Err())
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// Post sends a command without waiting, and ignores its answer.
func (s *Session) Post(method string, params any) error { return s.PostThen(method, params, nil) }

// PostThen is Post with a function that is called, like OnEvent, when the command is answered.
func (s *Session) PostThen(method string, params any, then func()) error {
	var waiting func(answer)
	if then != nil {
		waiting = func(answer) { then() }
	}
	id, b, err := s.c.encode(s.id, method, params, waiting)
	if err != nil {
		return err
	}
	select {
	case s.c.out <- b:
		return nil
	default:
		s.c.mu.Lock()
		delete(s.c.mu.calls, id)
		s.c.mu.Unlock()
		return fmt.Errorf("%s: %w", method, ErrBusy)
	}
}

// Subscribe buffers events of a method from now on. The channel is closed when the connection ends, at once
// if there are too many subscriptions; cancel stops the subscription.
func (s *Session) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	sub := &subscription{session: s.id, method: method, events: make(chan jsonv2.Value, maxBuffered)}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.mu.subs == nil || len(s.c.mu.subs) >= maxSubscriptions {
		close(sub.events)
		return sub.events, func() {}
	}
	s.c.mu.subs[sub] = struct{}{}
	return sub.events, func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		delete(s.c.mu.subs, sub)
	}
}
