package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	// chunk is the size of a read. Under load, a chunk contains about a hundred events, for which the timer is set only once.
	chunk = 32 << 10
	// linger is how long to wait for the end of a complete response on HTTP/1: only a connection whose response was read to the
	// end can be reused. The end arrives with the last bytes, or one packet later.
	linger = 5 * time.Millisecond
	// lastWords is how long to wait for the end of a response after its finish reason. Some servers leave the connection open.
	lastWords = 10 * time.Second
	// enough bytes to recognize a response.
	enough = 8
	// aliveEvery is how often a stream with bytes but no events is reported to be alive: a model that thinks for an hour sends
	// comments meanwhile, and the host must not time out.
	aliveEvery = 30 * time.Second
)

// received is a response whose headers have arrived.
type received struct {
	*answer
	ctx  context.Context
	out  *Outgoing
	res  *http.Response
	idle *idle
	size int64     // of the body so far
	told time.Time // time of the last event
}

// next reads the available part of the body, with the timer running.
func (r *received) next(p []byte) (int, error) {
	r.idle.Reset(r.idle.limit)
	n, err := r.res.Body.Read(p)
	r.idle.Stop()
	r.size += int64(n)
	return n, err
}

// read handles a response that should be a stream.
func (a *answer) read(ctx context.Context, out *Outgoing, res *http.Response, idle *idle) error {
	r := &received{answer: a, ctx: ctx, out: out, res: res, idle: idle, told: time.Now()}
	if e := res.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return r.fault(&llm.Error{
			Code:    llm.ErrInvalidOutput,
			Message: fmt.Sprintf("%s compressed its response (%s) although this was not requested", out.URL.Host, a.shown(e)),
			Next:    "check base_url and proxy: a proxy is changing responses",
		})
	}
	buf := make([]byte, chunk)
	n, err := r.next(buf)
	what := r.look(buf[:n])
	for what == unclear && err == nil && n < len(buf) {
		var more int
		more, err = r.next(buf[n:])
		n += more
		what = r.look(buf[:n])
	}
	if n > 0 && (what == document || what == unclear && !r.labelled()) {
		return r.document(buf[:n], err)
	}
	return r.stream(buf, n, err)
}

// stream decodes the body. The first n bytes have already been read, with err.
func (r *received) stream(buf []byte, n int, err error) error {
	frames, ferr := framing.For(r.protocol, 0)
	if ferr != nil {
		return ferr // cannot happen: New rejects such a protocol
	}
	decoder := r.protocol.Decode(r.req)
	var events []llm.Event
	step := func(f protocol.Frame) error {
		var failed error
		events, failed = decoder.Step(events[:0], f)
		if err := r.tell(events); err != nil {
			return err
		}
		if failed == nil && decoder.Done() {
			return errOver
		}
		return failed
	}
	for {
		failed := frames.Write(buf[:n], step)
		if failed == nil && err == io.EOF {
			if failed = frames.Close(step); failed == nil {
				events, failed = decoder.End(events[:0])
				if err := r.tell(events); err != nil {
					return err
				}
				if failed == nil {
					return nil
				}
			}
		}
		switch {
		case failed == errOver:
			r.drain(buf, err)
			return nil
		case failed != nil:
			return r.failed(failed)
		case err != nil && r.whole(decoder):
			events, failed = decoder.End(events[:0])
			if err := r.tell(events); err != nil {
				return err
			}
			if failed != nil {
				return r.failed(failed)
			}
			return nil
		case err != nil:
			return r.cut(err)
		case r.size > r.settings.MaxAnswer:
			return r.fault(&llm.Error{
				Code:    llm.ErrInvalidOutput,
				Message: fmt.Sprintf("the response of %s exceeds %d bytes without an end", r.out.URL.Host, r.settings.MaxAnswer),
			})
		}
		if time.Since(r.told) >= aliveEvery {
			if err := r.tell([]llm.Event{llm.Alive{}}); err != nil {
				return err
			}
		}
		if settled(decoder) {
			r.idle.limit = min(r.idle.limit, lastWords)
		}
		n, err = r.next(buf)
	}
}

// settled reports whether the finish reason has arrived: only usage and an end mark may follow.
func settled(d protocol.Decoder) bool {
	s, ok := d.(interface{ Settled() bool })
	return ok && s.Settled()
}

// whole reports whether the response is complete although its stream ended with an error that the caller did not cause.
func (r *received) whole(d protocol.Decoder) bool {
	cause := context.Cause(r.ctx)
	return settled(d) && (cause == nil || cause == errIdle)
}

// stopped is an error of the receiver of the events.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

func (r *received) tell(events []llm.Event) error {
	for _, e := range events {
		if err := r.emit(e); err != nil {
			return stopped{err}
		}
	}
	if len(events) > 0 {
		r.told = time.Now()
	}
	return nil
}

// drain reads the end of a complete response if it is available, so that the connection can be reused.
func (r *received) drain(buf []byte, err error) {
	if r.res.ProtoMajor != 1 {
		return
	}
	r.idle.Reset(min(linger, r.idle.limit))
	defer r.idle.Stop()
	for range 4 { // limited, in case it is not the end
		if err != nil {
			return
		}
		_, err = r.res.Body.Read(buf)
	}
}

// failed returns the error for a stream that was invalid or contained an error.
func (r *received) failed(err error) error {
	if s, ok := err.(stopped); ok {
		return s.error
	}
	of, ok := errors.AsType[*llm.Error](err)
	if !ok {
		of = &llm.Error{Code: llm.ErrInvalidOutput, Message: err.Error()}
	}
	e := *of
	e.Message = r.shown(e.Message)
	f := r.fault(&e)
	// A response without any bytes may be retried like a broken connection.
	f.again = r.size == 0 && e.Code == llm.ErrIncompleteStream
	return f
}

// cut returns the error for a connection that broke within a response.
func (r *received) cut(err error) error {
	f := r.broken(r.ctx, r.out, err)
	if r.size > 0 && context.Cause(r.ctx) == nil {
		f.Err.Message += " inside the answer"
	}
	r.describe(f, r.res)
	f.again = f.again && r.size == 0
	return f
}

func (r *received) fault(e *llm.Error) *Fault {
	f := r.answer.fault(e)
	f.URL = r.secrets.URL(r.out.URL.String())
	r.describe(f, r.res)
	return f
}

// kind is the kind of a body.
type kind int

const (
	unclear kind = iota // unknown so far
	stream
	document
)

// look determines the kind of a body from its content type and its first bytes. The content type alone is unreliable: some servers
// send errors with the type of a stream, and streams with any type.
func (r *received) look(head []byte) kind {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\uFEFF")), " \t\r\n")
	first := byte(0)
	if len(text) > 0 {
		first = text[0]
	}
	var looks bool
	switch r.protocol.Framing() {
	case protocol.FramingNDJSON:
		looks = first == '{'
	case protocol.FramingEventStream:
		looks = len(text) > 0 && first == 0 // frames begin with their length, and are shorter than 16 MB
	default:
		for _, field := range []string{":", "data", "event", "id", "retry"} {
			looks = looks || bytes.HasPrefix(text, []byte(field))
		}
		if first == '{' || first == '[' {
			return document
		}
	}
	switch {
	case first == '<':
		return document
	case r.labelled() && len(text) > 0, looks: // a page may begin with blank lines
		return stream
	case len(text) < enough:
		return unclear
	}
	return document
}

func (r *received) labelled() bool {
	label, _, _ := mime.ParseMediaType(r.res.Header.Get("Content-Type"))
	switch r.protocol.Framing() {
	case protocol.FramingNDJSON:
		return strings.Contains(label, "json")
	case protocol.FramingEventStream:
		return label == eventStream
	}
	return label == "text/event-stream"
}
