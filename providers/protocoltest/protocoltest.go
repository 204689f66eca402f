// Package protocoltest is what the tests of wire formats share: it runs bytes through a format as a provider would, holds
// the events against the rules of their order, and writes them down in one line.
//
// It owns: the notation ([Render]), the runs ([Run], [Splits], [Fuzz]) and the golden bodies ([Golden]). It must not
// know: any one format.
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

// maxSplits bounds the single cuts: a longer stream is not cut at each byte but at every second, third, ...
const maxSplits = 4 << 10

// Run decodes a whole stream and returns its events in the notation of [Render]; an error ends them as E(code "message").
// Events out of order and errors that are no *[llm.Error] fail the test.
func Run(t testing.TB, p protocol.Protocol, req *protocol.Request, stream []byte) string {
	t.Helper()
	events := Events(t, p, req, stream)
	return Render(req.Namespace, events)
}

// Events is [Run] without the rendering. An error is the last event.
func Events(t testing.TB, p protocol.Protocol, req *protocol.Request, stream []byte) []llm.Event {
	t.Helper()
	a := decode(p, req, stream)
	if a.wrong != "" {
		t.Fatalf("%s: %s\nevents: %s\nstream: %q", p.ID(), a.wrong, Render(req.Namespace, a.events), stream)
	}
	return a.events
}

// Splits is [Run], and demands the same result however the stream is cut: byte by byte, in two at each byte, and into
// random pieces.
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

// answer is what a format made of a stream.
type answer struct {
	events []llm.Event // an error is the last one
	wrong  string      // how the format broke its contract
}

// reader plays the part of a provider: it feeds a decoder until the answer is complete, the bytes end or something breaks.
type reader struct {
	answer
	decoder protocol.Decoder
	order   llm.Checker
	checked int
	over    bool // complete or failed
}

// decode runs the pieces of one stream through the format. Each piece is a buffer of its own that is overwritten after
// use, as a reader's is.
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

// step takes a frame. io.EOF says that nobody reads on.
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

// broken keeps the first complaint; the others follow from it.
func (r *reader) broken(what string) {
	if r.wrong == "" {
		r.wrong = what
	}
}
