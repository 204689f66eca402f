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
	// chunk is read at once. Under load a chunk holds a hundred events, and the timer is armed once for all of them.
	chunk = 32 << 10
	// linger is how long the end of an answer on HTTP/1 is waited for once it is complete: only a connection whose answer
	// was read to the end serves another request. The end comes with the last bytes, or a packet later.
	linger = 5 * time.Millisecond
	// lastWords is how long the end of an answer is waited for whose finish reason has come. Some servers leave the
	// connection open behind it.
	lastWords = 10 * time.Second
	// enough bytes tell what an answer is.
	enough = 8
	// aliveEvery is how often a stream that brings bytes and no events is reported to be alive: a model that thinks for an
	// hour sends comments meanwhile, and the host must not take it for dead.
	aliveEvery = 30 * time.Second
)

// received is an answer whose head has come.
type received struct {
	*answer
	ctx  context.Context
	out  *Outgoing
	res  *http.Response
	idle *idle
	size int64     // of the body so far
	told time.Time // when the last event was told
}

// next reads what has come of the body, with the timer armed.
func (r *received) next(p []byte) (int, error) {
	r.idle.Reset(r.idle.limit)
	n, err := r.res.Body.Read(p)
	r.idle.Stop()
	r.size += int64(n)
	return n, err
}

// read takes an answer that promises to be a stream.
func (a *answer) read(ctx context.Context, out *Outgoing, res *http.Response, idle *idle) error {
	r := &received{answer: a, ctx: ctx, out: out, res: res, idle: idle, told: time.Now()}
	if e := res.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return r.fault(&llm.Error{
			Code:    llm.ErrInvalidOutput,
			Message: fmt.Sprintf("%s compressed its answer (%s), which was not asked for", out.URL.Host, a.shown(e)),
			Next:    "check base_url and proxy: something between here and the vendor changes answers",
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

// stream decodes. The first n bytes have been read already, with err.
func (r *received) stream(buf []byte, n int, err error) error {
	frames, ferr := framing.For(r.protocol, 0)
	if ferr != nil {
		return ferr // New has refused such a protocol
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
				Message: fmt.Sprintf("the answer of %s has more than %d bytes and no end", r.out.URL.Host, r.settings.MaxAnswer),
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

// settled reports that the vendor has said why the answer ends: what may still come are figures and a mark.
func settled(d protocol.Decoder) bool {
	s, ok := d.(interface{ Settled() bool })
	return ok && s.Settled()
}

// whole reports that nothing of the answer is lost although its bytes ended badly, and nobody but us ended them.
func (r *received) whole(d protocol.Decoder) bool {
	cause := context.Cause(r.ctx)
	return settled(d) && (cause == nil || cause == errIdle)
}

// stopped is an error of the one who takes the events.
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

// drain reads the end of a complete answer, if it is there, so that its connection can be used again.
func (r *received) drain(buf []byte, err error) {
	if r.res.ProtoMajor != 1 {
		return
	}
	r.idle.Reset(min(linger, r.idle.limit))
	defer r.idle.Stop()
	for range 4 { // more than an end is no end
		if err != nil {
			return
		}
		_, err = r.res.Body.Read(buf)
	}
}

// failed is the error of a stream that said something wrong, or that an error was its answer.
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
	// An answer without a byte began as little as one whose connection broke.
	f.again = r.size == 0 && e.Code == llm.ErrIncompleteStream
	return f
}

// cut is the error of a connection that broke while the answer was read.
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

// kind is what a body is.
type kind int

const (
	unclear kind = iota // so far
	stream
	document
)

// look tells by its label and its first bytes what a body is. Labels alone don't: there are servers that send an error
// under the label of a stream, and a stream under any label.
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
