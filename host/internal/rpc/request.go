package rpc

import (
	"encoding/json"
	"errors"
	"sync/atomic"
)

// Request is a request of the client. It is answered exactly once, with Reply or Fail; a second answer is logged and dropped.
type Request struct {
	ID     ID
	Method string
	Params json.RawMessage // nil: absent; the bytes belong to the request

	conn     *Conn
	route    Route
	size     int  // of the message
	free     bool // has no place among those that run; guarded by conn.mu
	answered atomic.Bool
}

func (r *Request) shared() bool { return r.route.Shared || r.route.Key == "" }

// Reply answers with a result. It never waits. A json.RawMessage is sent as it is; a result that cannot be encoded becomes an
// [Internal] error.
func (r *Request) Reply(result any) {
	b, err := encodeValue(result)
	if err != nil {
		r.conn.log.Error("cannot encode the result of a request", "call", r.Method, "err", err)
		r.Fail(Errorf(Internal, "internal error: cannot encode the result of %s", r.Method))
		return
	}
	if len(b) == 0 {
		b = []byte("null")
	}
	r.answer(envelope{id: r.ID, result: b})
}

// Fail answers with an error. An [*Error] in its tree keeps code, message and data; any other error is an [Internal] one.
func (r *Request) Fail(err error) {
	r.answer(envelope{id: r.ID, err: r.conn.encodeError(err)})
}

func (r *Request) answer(e envelope) {
	if r.answered.Swap(true) {
		r.conn.log.Error("a request was answered twice", "call", r.Method, "stack", stack())
		return
	}
	r.conn.out.push(&e)
}

// Release lets the next request with the same key start, and frees the handler's place among those that run. It is for handlers that
// take long, such as one that waits until a turn or a process has ended. It may be called more than once.
func (r *Request) Release() {
	c := r.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(r)
	c.start()
}

// encodeError returns the JSON of err for a response.
func (c *Conn) encodeError(err error) []byte {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = Errorf(Internal, "%v", err)
	}
	b, failed := encodeValue(e)
	if failed != nil {
		c.log.Error("cannot encode the data of an error", "err", failed)
		b, _ = encodeValue(&Error{Code: e.Code, Message: e.Message})
	}
	return b
}
