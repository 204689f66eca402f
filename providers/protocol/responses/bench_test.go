package responses_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// BenchmarkDeltas decodes an answer of 50,000 deltas as OpenAI sends them. One operation is the whole answer.
func BenchmarkDeltas(b *testing.B) {
	const n = 50_000
	for _, bc := range []struct{ name, added, delta string }{
		{"text", addMessage, `{"type":"response.output_text.delta","sequence_number":%d,"item_id":"m_1","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"a1b2c3d4e5"}`},
		{"reasoning", addThought, `{"type":"response.reasoning_summary_text.delta","sequence_number":%d,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":" word","obfuscation":"a1b2c3d4e5"}`},
		{"arguments", addCall, `{"type":"response.function_call_arguments.delta","sequence_number":%d,"item_id":"fc_1","output_index":0,"delta":" word","obfuscation":"a1b2c3d4e5"}`},
	} {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(fmt.Appendf(nil, bc.delta, 1), &head); err != nil {
			b.Fatal(err)
		}
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			frame := protocol.Frame{Event: head.Type, Data: fmt.Appendf(nil, bc.delta, 12345)}
			events := make([]llm.Event, 0, 64)
			for b.Loop() {
				d := responses.Protocol{}.Decode(request())
				events, err := d.Step(events[:0], protocol.Frame{Data: []byte(bc.added)})
				for range n {
					if err == nil {
						events, err = d.Step(events[:0], frame)
					}
				}
				if err != nil || len(events) != 1 {
					b.Fatal(events, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
		})
	}
	b.Run("text-with-framing", func(b *testing.B) {
		b.ReportAllocs()
		frames := []string{addMessage}
		for i := range n {
			frames = append(frames, fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"m_1","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"a1b2c3d4e5"}`, i))
		}
		all := stream(append(frames, done)...)
		b.SetBytes(int64(len(all)))
		for b.Loop() {
			d := responses.Protocol{}.Decode(request())
			r, err := framing.New(protocol.FramingSSE, 0)
			if err != nil {
				b.Fatal(err)
			}
			var events []llm.Event
			step := func(f protocol.Frame) (err error) {
				events, err = d.Step(events[:0], f)
				return err
			}
			for at := 0; at < len(all); at += 32 << 10 {
				if err := r.Write(all[at:min(at+32<<10, len(all))], step); err != nil {
					b.Fatal(err)
				}
			}
			if !d.Done() {
				b.Fatal("the answer is not complete")
			}
		}
	})
}

// BenchmarkBody lowers a thread of 1,600 messages.
func BenchmarkBody(b *testing.B) {
	r := request()
	r.Model = thinker()
	r.Tools = []llm.Tool{look(), patch()}
	for range 100 {
		r.Messages = append(r.Messages, mixedHistory()...)
	}
	b.ReportAllocs()
	for b.Loop() {
		body, err := (responses.Protocol{}).Body(r)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}
