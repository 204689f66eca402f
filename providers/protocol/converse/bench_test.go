package converse_test

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// BenchmarkDeltas is what one piece of text costs, from its bytes to its event.
func BenchmarkDeltas(b *testing.B) {
	begin := stream("messageStart", begins)
	piece := stream("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" a few words"},"p":"abcdefghijklmnop"}`)
	frames, err := framing.For(format, 0)
	if err != nil {
		b.Fatal(err)
	}
	d := format.Decode(request())
	var events []llm.Event
	step := func(f protocol.Frame) error {
		events, err = d.Step(events[:0], f)
		return err
	}
	if err := frames.Write(begin, step); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := frames.Write(piece, step); err != nil {
			b.Fatal(err)
		}
	}
	if len(events) != 1 {
		b.Fatalf("the last piece led to %d events", len(events))
	}
}
