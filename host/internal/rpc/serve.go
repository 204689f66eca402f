package rpc

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"syscall"
	"time"
)

// Serve reads until the stream ends, ctx ends, or the connection is closed because of what the client sends or does not read. Then it
// ends the handlers' ctx, waits for them, sends what is still queued, and closes the stream. It returns nil if the client has closed the
// connection, and the cause of ctx if that has ended. It may be called once.
func (c *Conn) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrClosed)
	c.ctx = ctx
	read, wrote := make(chan error, 1), make(chan error, 1)
	go func() { read <- c.read() }()   // owned by Serve
	go func() { wrote <- c.write() }() // owned by Serve

	var err error
	var broken, reading, writing = false, true, true
	select {
	case err = <-read:
		reading = false
	case err = <-wrote:
		writing, broken = false, true
		if c.cfg.received != nil {
			// The server has closed the connection. What it sent before that is still to be read.
			select {
			case err = <-read:
				reading = false
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
	case <-c.out.stalled:
		err, broken = ErrStalled, true
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.finish()
	if errors.Is(err, io.EOF) {
		// The client may have closed only its side, as programs do that pipe their requests in.
		err = nil
		linger := time.NewTimer(c.cfg.Linger)
		select {
		case <-c.idle:
		case <-linger.C:
		case <-ctx.Done():
		case <-c.out.stalled:
			broken = true
		case <-wrote:
			writing, broken = false, true
		}
		linger.Stop()
	} else if left(err) {
		err, broken = nil, true
	}
	c.out.refuse()
	close(c.done)
	cancel(ErrClosed)
	if broken {
		c.out.abandon()
		_ = c.stream.Close()
	}
	c.dropWaiting()
	<-c.idle
	c.out.end()
	patience := time.NewTimer(closeTimeout)
	defer patience.Stop()
	if writing {
		writing = !ended(wrote, patience)
	}
	c.out.abandon()
	_ = c.stream.Close()
	// Closing a stream ends its reads and writes, except those of files that the runtime cannot poll, such as a terminal.
	patience.Reset(closeTimeout)
	if writing && !ended(wrote, patience) || reading && !ended(read, patience) {
		c.log.Debug("closing a stream did not end its reads and writes")
	}
	return err
}

// left reports whether an error of the stream says that the client has closed the connection.
func left(err error) bool {
	for _, e := range []error{ErrClosed, io.ErrClosedPipe, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func ended(c <-chan error, or *time.Timer) bool {
	select {
	case <-c:
		return true
	case <-or.C:
		return false
	}
}

// read receives messages until the stream ends.
func (c *Conn) read() error {
	for bad := 0; bad < c.cfg.MaxGarbage; {
		if !c.awaitSpace() {
			return ErrClosed
		}
		b, err := c.stream.Read()
		var m message
		if tooLarge, ok := errors.AsType[*TooLargeError](err); ok {
			m = oversized(tooLarge)
		} else if err != nil {
			return err
		} else {
			m = decode(b)
		}
		if m.kind != garbage {
			bad = 0
			c.receive(m, len(b))
			continue
		}
		bad++
		if m.err == nil {
			c.log.Debug("ignored a response without a valid id")
			continue
		}
		c.log.Debug("received a message that is not JSON-RPC", "err", m.err)
		c.out.push(&envelope{id: m.id, noID: true, err: c.encodeError(m.err)})
	}
	return ErrGarbage
}

// awaitSpace waits until another message may be read. It returns false if the connection ends. It does not wait for the outgoing queue to
// fall to its bound, because what is read next may be urgent.
func (c *Conn) awaitSpace() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ending && (c.open >= c.cfg.MaxRequests || c.size >= c.cfg.MaxRead || c.out.above(urgentFactor)) {
		c.space.Wait()
	}
	return !c.ending
}

// receive takes a message of the client. A panic costs only that message.
func (c *Conn) receive(m message, size int) {
	var r *Request
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic while receiving a message", "call", m.method, "err", p, "stack", stack())
			if r != nil {
				r.Fail(Errorf(Internal, "internal error in %s", r.Method))
			}
		}
	}()
	switch m.kind {
	case request:
		r = &Request{ID: m.id, Method: m.method, Params: m.params, conn: c, size: size}
		if c.cfg.Route != nil {
			r.route = c.cfg.Route(m.method, m.params)
		}
		c.admit(r)
	case notification:
		if c.cfg.received != nil {
			c.cfg.received(m.notification())
		} else if c.cfg.Notified != nil {
			c.cfg.Notified(c.ctx, m.method, m.params)
		}
	case response:
		if c.cfg.Answered != nil {
			c.cfg.Answered(m.id, m.result, m.err)
		}
	}
}

// admit starts r, or lets it wait.
func (c *Conn) admit(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.open++
	c.size += r.size
	if r.route.Urgent {
		c.urgent = append(c.urgent, r)
	} else {
		c.requests.add(r)
	}
	c.start()
}

// start starts the requests that may run now. c.mu is held.
func (c *Conn) start() {
	if c.ctx.Err() != nil {
		return
	}
	// Urgent requests have places of their own. They are bounded too: so many answers may exceed the bound of the outgoing queue.
	for len(c.urgent) > 0 && c.runningUrgent < c.cfg.MaxConcurrent && !c.out.above(urgentFactor) {
		r := c.urgent[0]
		c.urgent[0] = nil
		c.urgent = c.urgent[1:]
		c.runningUrgent++
		go c.handle(r) // owned by Serve, which waits until none is open
	}
	for c.requests.waiting > 0 && c.running < c.cfg.MaxConcurrent && !c.out.above(1) {
		r := c.requests.next()
		if r == nil {
			return
		}
		c.running++
		go c.handle(r) // owned by Serve, which waits until none is open
	}
}

// handle answers r.
func (c *Conn) handle(r *Request) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.release(r)
		c.open--
		c.size -= r.size
		c.start()
		c.checkIdle()
		c.space.Signal()
	}()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic in a request handler", "call", r.Method, "err", p, "stack", stack())
			if !r.answered.Load() {
				r.Fail(Errorf(Internal, "internal error in %s", r.Method))
			}
		} else if !r.answered.Load() {
			c.log.Error("a request handler returned without an answer", "call", r.Method)
			r.Fail(Errorf(Internal, "internal error: %s returned without an answer", r.Method))
		}
	}()
	if c.cfg.Handle == nil {
		r.Fail(Errorf(MethodNotFound, "method not found: %s", r.Method))
		return
	}
	c.cfg.Handle(c.ctx, r)
}

// release frees the place of r. c.mu is held.
func (c *Conn) release(r *Request) {
	if r.free {
		return
	}
	r.free = true
	if r.route.Urgent {
		c.runningUrgent--
		return
	}
	c.running--
	c.requests.done(r)
}

// sent is called after messages were sent.
func (c *Conn) sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start()
	c.space.Signal()
}

// finish stops taking requests.
func (c *Conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.checkIdle()
	c.space.Signal()
}

// dropWaiting fails the requests that have not started.
func (c *Conn) dropWaiting() {
	c.mu.Lock()
	waiting := append(c.requests.drop(), c.urgent...)
	c.urgent = nil
	c.mu.Unlock()
	for _, r := range waiting {
		r.Fail(&Error{Code: Internal, Message: ErrClosed.Error(), Data: detail{"closed", "connect again and repeat the request"}})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open -= len(waiting)
	c.checkIdle()
}

// checkIdle closes c.idle. c.mu is held.
func (c *Conn) checkIdle() {
	if !c.ending || c.open > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// write sends what is queued.
func (c *Conn) write() error {
	flusher, _ := c.stream.(interface{ Flush() error })
	var batch []item
	for {
		batch = c.out.take(batch[:0])
		if len(batch) == 0 {
			return nil
		}
		for _, it := range batch {
			if err := c.stream.Write(it.text); err != nil {
				return err
			}
		}
		if flusher != nil {
			if err := flusher.Flush(); err != nil {
				return err
			}
		}
		c.out.sent(batch)
	}
}

func stack() string { return string(debug.Stack()) }
