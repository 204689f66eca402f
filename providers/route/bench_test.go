package route

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// fast is a protocol that takes the content out of chunks as chat vendors send them and does nothing else, so that a
// benchmark shows the route.
type fast struct{ toy }

func (fast) Decode(*protocol.Request) protocol.Decoder { return &fastDecoder{} }

type fastDecoder struct{ toyDecoder }

func (d *fastDecoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if f.Done || !d.started {
		return d.toyDecoder.Step(dst, protocol.Frame{Done: f.Done, Data: []byte("{}")})
	}
	_, rest, _ := bytes.Cut(f.Data, []byte(`"content":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return append(dst, llm.BlockDelta{Kind: llm.BlockText, ID: "0", Text: string(text)}), nil
}

const benchDeltas = 20_000

// benchAnswer streams chunks, flushed after every so many.
func benchAnswer(perFlush int) http.HandlerFunc {
	one := `data: {"id":"chatcmpl-0123456789abcdefghij","object":"chat.completion.chunk","created":1767355260,"model":"gpt-5.2-2026-01-01",` +
		`"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	part := []byte(strings.Repeat(one, perFlush))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range benchDeltas / perFlush {
			_, _ = w.Write(part)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// BenchmarkStream carries deltas from a server on the loopback, in the same process, to emit.
func BenchmarkStream(b *testing.B) {
	for _, perFlush := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("flush=%d", perFlush), func(b *testing.B) {
			r := loopback(b, Config{Protocol: fast{sse}, Auth: Bearer(fixed("sk-12345"))}, benchAnswer(perFlush))
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				err := r.Stream(b.Context(), request("m"), 1, func(llm.Event) error {
					events++
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

// BenchmarkShortRequest is what a request costs beside its answer.
func BenchmarkShortRequest(b *testing.B) {
	r := loopback(b, Config{Auth: Bearer(fixed("sk-12345"))}, answerWith("x"))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Stream(b.Context(), request("m"), 1, func(llm.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
