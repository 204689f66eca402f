package chat

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// piece draws a chunk out of everything that vendors send, in no order that makes sense.
func piece(t *rapid.T) string {
	call := rapid.Custom(func(t *rapid.T) string {
		return "{" + rapid.SampledFrom([]string{``, `"index":0,`, `"index":1,`, `"index":7,`, `"index":null,`}).Draw(t, "index") +
			rapid.SampledFrom([]string{``, `"id":"a",`, `"id":"b",`, `"id":"",`}).Draw(t, "id") +
			`"function":{` + rapid.SampledFrom([]string{``, `"name":"f",`, `"name":"g",`}).Draw(t, "name") +
			`"arguments":` + rapid.SampledFrom([]string{`""`, `"{}"`, `"{"`, `"}"`, `"{\"a[0]\":"`, `"1}"`}).Draw(t, "arguments") + `}}`
	})
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1, 2, 3:
		return calls(rapid.SliceOfN(call, 1, 3).Draw(t, "calls")...)
	case 4:
		return `{"content":"` + rapid.SampledFrom([]string{"a", "<think>", "<th", "</think>", "ink>", ""}).Draw(t, "content") + `"}`
	case 5:
		return rapid.SampledFrom([]string{
			`{"reasoning":"r"}`, `{"reasoning_content":"r"}`, `{"refusal":"no"}`, `{"content":[{"type":"thinking","thinking":"x"}]}`,
			`{"reasoning_details":[{"type":"reasoning.text","text":"x","index":0}]}`, `{"reasoning_details":[{"type":"encrypted","encrypted":"E"}]}`,
		}).Draw(t, "delta")
	case 6:
		return ended(rapid.SampledFrom([]string{"stop", "length", "tool_calls", "content_filter", "moon"}).Draw(t, "reason"))
	case 7:
		return done
	case 8:
		return rapid.SampledFrom([]string{`{"choices":[],"usage":{"prompt_tokens":3}}`, `{"choices":null}`, `{"choices":[{}]}`}).Draw(t, "frame")
	}
	return `{"content":"x"}`
}

// Whatever vendors send in whatever order: the order of events holds, an end or an error comes, calls have arguments that
// are JSON and ids that differ, and the message can be sent back.
func TestAnyPieces(t *testing.T) {
	rapid.Check(t, anyPieces)
}

func FuzzPieces(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyPieces)) }

func anyPieces(t *rapid.T) {
	compat := protocol.Compat{
		OptionalFinishReason: rapid.Bool().Draw(t, "optional"), RequireReasoning: rapid.Bool().Draw(t, "require"),
		ToolCallIDs: rapid.SampledFrom([]string{"", "mistral", "claude", "openai"}).Draw(t, "ids"),
	}
	if rapid.Bool().Draw(t, "tags") {
		compat.ThinkTags = &protocol.ThinkTags{Open: "<think>", Close: "</think>"}
	}
	r := asked(compat, llm.Tool{Name: "f", InputSchema: []byte(`{"properties":{"a":{"type":"array"}}}`)})
	stream := frames(rapid.SliceOfN(rapid.Custom(piece), 0, 12).Draw(t, "pieces")...)

	var events []llm.Event
	d := Protocol{}.Decode(r)
	in, err := framing.New(Protocol{}.Framing(), 0)
	if err != nil {
		t.Fatal(err)
	}
	step := func(f protocol.Frame) error {
		var err error
		events, err = d.Step(events, f)
		return err
	}
	if err = in.Write(stream, step); err == nil {
		err = in.Close(step)
	}
	if err == nil {
		events, err = d.End(events)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		events = append(events, e)
	} else if err != nil {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	var check llm.Checker
	var fold llm.Fold
	for _, e := range events {
		if err := check.Check(e); err != nil {
			t.Fatalf("%v\nstream %s", err, stream)
		}
		fold.Add(e)
	}
	if err := check.Done(); err != nil {
		t.Fatalf("%v\nstream %s", err, stream)
	}
	r.Messages = append(r.Messages, *fold.Message())
	if _, err := (Protocol{}).Body(r); err != nil {
		t.Fatalf("the answer can't be sent back: %v\nstream %s", err, stream)
	}
}
