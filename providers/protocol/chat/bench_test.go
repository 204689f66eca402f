package chat

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// One chunk as vendors send it, most of it being what each chunk repeats.
func benchmarkStep(b *testing.B, delta string) {
	frame := protocol.Frame{Data: []byte(`{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,` +
		`"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_fc9f1d7035","choices":[{"index":0,"delta":` + delta +
		`,"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"V1Pc"}`)}
	d := Protocol{}.Decode(asked(protocol.Compat{}))
	var dst []llm.Event
	var err error
	start := protocol.Frame{Data: []byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f"}}]}}]}`)}
	if dst, err = d.Step(dst, start); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(frame.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if dst, err = d.Step(dst[:0], frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTextDelta(b *testing.B)      { benchmarkStep(b, `{"content":" lantern"}`) }
func BenchmarkReasoningDelta(b *testing.B) { benchmarkStep(b, `{"reasoning_content":" lantern"}`) }
func BenchmarkToolDelta(b *testing.B) {
	benchmarkStep(b, `{"tool_calls":[{"index":0,"function":{"arguments":"\"lantern"}}]}`)
}
func BenchmarkDetailsDelta(b *testing.B) {
	benchmarkStep(b, `{"reasoning":" lantern","reasoning_details":[{"type":"reasoning.text","text":" lantern","format":"f","index":0}]}`)
}

func BenchmarkBody(b *testing.B) {
	r := conversation(protocol.Compat{})
	for range 50 {
		r.Messages = append(r.Messages, r.Messages[1:]...)
		if len(r.Messages) > 400 {
			break
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Protocol{}).Body(r); err != nil {
			b.Fatal(err)
		}
	}
}
