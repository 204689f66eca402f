package protocoltest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Fuzz is the body of a fuzz target for responses. For any input:
//
//   - nothing panics, and events are in order or the response ends with an *[llm.Error];
//   - one byte at a time gives the same events as all at once;
//   - the message that results can be sent back: it has a JSON body, or an *[llm.Error] explains why not.
func Fuzz(f *testing.F, p protocol.Protocol, req *protocol.Request, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		want := Run(t, p, req, stream)
		if a := decode(p, req, bytewise(stream)...); a.wrong != "" || Render(req.Namespace, a.events) != want {
			t.Fatalf("%s: byte by byte the stream gives\n%s %s\nand at once\n%s", p.ID(), Render(req.Namespace, a.events), a.wrong, want)
		}
		var fold llm.Fold
		for _, e := range Events(t, p, req, stream) {
			fold.Add(e)
		}
		fold.Calls()
		fold.Pending()
		for _, m := range []*llm.Message{fold.Message(), fold.Ended()} {
			replay(t, p, req, m)
		}
	})
}

// replay sends a response back, as the next request of its thread does.
func replay(t *testing.T, p protocol.Protocol, req *protocol.Request, m *llm.Message) {
	t.Helper()
	inner := *req.Request
	inner.Messages = append(slices.Clone(inner.Messages), *m)
	next := *req
	next.Request = &inner
	next.Warn = nil
	body, err := p.Body(&next)
	if err != nil {
		if _, ok := err.(*llm.Error); !ok {
			t.Fatalf("%s: the answer can't be sent back, and the error is a %T: %v", p.ID(), err, err)
		}
		return
	}
	if !json.Valid(body) {
		t.Fatalf("%s: with the answer sent back the body is no JSON: %q", p.ID(), body)
	}
}
