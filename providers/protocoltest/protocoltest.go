// Package protocoltest contains test helpers for wire formats: it decodes bytes as a provider would, checks the order of the
// events, and formats them on one line.
//
// It owns the notation ([Render]), the runs ([Run], [Splits], [Fuzz]) and the golden bodies ([Golden]). It does not know any
// particular format.
//
// Start with [Splits].
package protocoltest

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxSplits limits the single cuts: a longer stream is only cut at every second, third, ... byte.
const maxSplits = 4 << 10

// Run decodes a whole stream and returns its events in the notation of [Render], with an error as E(code "message"). Events out of
// order, and errors that are not an *[llm.Error], fail the test.
func Run(t testing.TB, p protocol.Protocol, req *protocol.Request, stream []byte) string {
	t.Helper()
	events := Events(t, p, req, stream)
	return Render(req.Namespace, events)
}

// Events is like [Run] but returns the events. An error is the last event.
func Events(t testing.TB, p protocol.Protocol, req *protocol.Request, stream []byte) []llm.Event {
	t.Helper()
	a := decode(p, req, stream)
	if a.wrong != "" {
		t.Fatalf("%s: %s\nevents: %s\nstream: %q", p.ID(), a.wrong, Render(req.Namespace, a.events), stream)
	}
	return a.events
}

// Splits is like [Run], and requires the same result for all ways of splitting the stream: byte by byte, in two at each byte, and
// into random parts.
func Splits(t testing.TB, p protocol.Protocol, req *protocol.Request, stream []byte) string {
	t.Helper()
	want := Run(t, p, req, stream)
	same := func(t rapid.TB, pieces ...[]byte) {
		t.Helper()
		a := decode(p, req, pieces...)
		if got := Render(req.Namespace, a.events); got != want || a.wrong != "" {
			t.Fatalf("%s: cut into %s the stream gives\n%s %s\nand in one piece\n%s", p.ID(), lengths(pieces), got, a.wrong, want)
		}
	}
	same(t, bytewise(stream)...)
	for i := 0; i <= len(stream); i += 1 + len(stream)/maxSplits {
		same(t, stream[:i], stream[i:])
	}
	rapid.Check(t, func(t *rapid.T) {
		var pieces [][]byte
		for rest := stream; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "length")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		same(t, pieces...)
	})
	return want
}

func bytewise(stream []byte) [][]byte {
	pieces := make([][]byte, len(stream))
	for i := range stream {
		pieces[i] = stream[i : i+1]
	}
	return pieces
}

func lengths(pieces [][]byte) string {
	if len(pieces) > 40 {
		return fmt.Sprintf("%d pieces", len(pieces))
	}
	var s []string
	for _, p := range pieces {
		s = append(s, fmt.Sprint(len(p)))
	}
	return strings.Join(s, "+")
}

// answer is the result of decoding a stream.
type answer struct {
	events []llm.Event // an error is the last one
	wrong  string      // how the format violated its contract
}

// reader acts as a provider: it feeds a decoder until the response is complete, the bytes end, or an error occurs.
type reader struct {
	answer
	decoder protocol.Decoder
	order   llm.Checker
	checked int
	over    bool // complete or failed
}

// decode decodes the parts of a stream. Each part is a separate buffer that is overwritten after use, like a reader's buffer.
func decode(p protocol.Protocol, req *protocol.Request, pieces ...[]byte) answer {
	frames, err := framing.For(p, 0)
	if err != nil {
		return answer{wrong: err.Error()}
	}
	r := &reader{decoder: p.Decode(req)}
	buf := []byte{}
	for _, piece := range pieces {
		if r.over {
			break
		}
		buf = append(buf[:0], piece...)
		if err := frames.Write(buf, r.step); err != nil && !r.over {
			r.fail(err)
		}
		for i := range buf {
			buf[i] = '#'
		}
	}
	if !r.over {
		if err := frames.Close(r.step); err != nil && !r.over {
			r.fail(err)
		}
	}
	if !r.over {
		var err error
		r.events, err = r.decoder.End(r.events)
		r.check()
		if err != nil {
			r.fail(err)
		}
	}
	if r.wrong == "" {
		if err := r.order.Done(); err != nil {
			r.wrong = "the answer has neither a finish nor an error"
		}
	}
	return r.answer
}

// step handles a frame. io.EOF means that nothing more is read.
func (r *reader) step(f protocol.Frame) error {
	var err error
	r.events, err = r.decoder.Step(r.events, f)
	r.check()
	if err != nil {
		r.fail(err)
		return io.EOF
	}
	if !r.decoder.Done() {
		return nil
	}
	r.over = true
	if n := len(r.events); n == 0 || llm.EventName(r.events[n-1]) != "finish" {
		r.broken("the decoder says that the answer is complete, without a finish")
	}
	after, err := r.decoder.End(nil)
	if len(after) > 0 || err != nil {
		r.broken(fmt.Sprintf("the end of a complete answer leads to %s, %v", Render("", after), err))
	}
	return io.EOF
}

func (r *reader) check() {
	for _, e := range r.events[r.checked:] {
		if _, ok := e.(*llm.Error); ok {
			r.broken("the decoder appended an error instead of returning it")
		}
		if err := r.order.Check(e); err != nil {
			r.broken(fmt.Sprintf("%v (event %d)", err, r.checked))
		}
		r.checked++
	}
}

func (r *reader) fail(err error) {
	r.over = true
	e, ok := err.(*llm.Error)
	if !ok {
		r.broken(fmt.Sprintf("the error is a %T and no *llm.Error: %v", err, err))
		e = &llm.Error{Message: err.Error()}
	}
	if err := r.order.Check(e); err != nil {
		r.broken(err.Error())
	}
	r.events = append(r.events, e)
	r.checked++
}

// broken keeps the first violation; others may follow from it.
func (r *reader) broken(what string) {
	if r.wrong == "" {
		r.wrong = what
	}
}
