package dynamictool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Functions and namespaces become tools in their order.
func TestSpecs(t *testing.T) {
	var declared []protocol.DynamicToolSpec
	const text = `[
		{"type":"function","name":"a","description":"A","inputSchema":{"type":"object"}},
		{"type":"namespace","name":"n","description":"N","tools":[{"type":"function","name":"a","description":"B","inputSchema":{"type":"object"},"deferLoading":true}]}
	]`
	if err := json.Unmarshal([]byte(text), &declared); err != nil {
		t.Fatal(err)
	}
	got, err := Specs(declared)
	object := json.RawMessage(`{"type":"object"}`)
	want := []event.ClientTool{
		{Name: "a", Description: "A", InputSchema: object},
		{Namespace: "n", About: "N", Name: "a", Description: "B", InputSchema: object, Deferred: true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The declarations of a thread are limited in total.
func TestSpecsAreLimited(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 60<<10) + `"}`)
	for n, ok := range map[int]bool{17: true, 18: false} {
		var declared []protocol.DynamicToolSpec
		for i := range n {
			declared = append(declared, protocol.DynamicToolSpec{Body: protocol.DynamicFunction{Name: fmt.Sprintf("t%d", i), InputSchema: schema}})
		}
		if _, err := Specs(declared); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "dynamicTools[17]: ") {
			t.Errorf("%d tools: %v", n, err)
		}
	}
}

func pictureURL(t *testing.T) (url string, raw []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()), b.Bytes()
}

// What a client answers: a part that can't be used is replaced by a text, and an answer that makes no sense refuses the call.
func TestAnswer(t *testing.T) {
	url, raw := pictureURL(t)
	large := "data:image/png;base64," + base64.StdEncoding.EncodeToString(make([]byte, picture.MaxTotal+1))
	shown := func(parts ...event.ToolContent) event.ToolAnswer {
		return event.ToolAnswer{Success: true, Content: parts}
	}
	for _, tc := range []struct {
		name, result string
		want         event.ToolAnswer
	}{
		{"text and an image", `{"success":true,"contentItems":[{"type":"inputText","text":"a"},{"type":"inputImage","imageUrl":"` + url + `"}]}`,
			shown(event.ToolContent{Text: "a"}, event.ToolContent{MediaType: "image/png", Data: raw})},
		{"nothing", `{"success":true,"contentItems":[]}`, shown()},
		{"failed", `{"success":false,"contentItems":[{"type":"inputText","text":"a"}]}`, event.ToolAnswer{Content: []event.ToolContent{{Text: "a"}}}},
		{"remote image", `{"success":true,"contentItems":[{"type":"inputImage","imageUrl":"http://x/a.png"}]}`,
			shown(event.ToolContent{Text: "[image left out: it is not a data URL with base64]"})},
		{"broken base64", `{"success":true,"contentItems":[{"type":"inputImage","imageUrl":"data:image/png;base64,?"}]}`,
			shown(event.ToolContent{Text: "[image left out: its data URL is not base64: illegal base64 data at input byte 0]"})},
		{"large image", `{"success":true,"contentItems":[{"type":"inputImage","imageUrl":"` + large + `"}]}`,
			shown(event.ToolContent{Text: "[image left out: the images of a result must not exceed 8 MiB in total]"})},
		{"no content", `{"success":true}`, event.ToolAnswer{Refused: "invalid result: missing field `contentItems`"}},
		{"no object", `7`, event.ToolAnswer{Refused: "invalid result: invalid type: integer `7`, expected an object"}},
		{"null", `null`, event.ToolAnswer{Refused: "invalid result: missing field `params`"}},
		{"unknown part", `{"success":true,"contentItems":[{"type":"inputAudio","audioUrl":"data:"}]}`,
			event.ToolAnswer{Refused: "invalid result: contentItems[0].type: unknown variant `inputAudio`, expected one of `inputImage`, `inputText`"}},
	} {
		if got := Answer(json.RawMessage(tc.result)); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	not := base64.StdEncoding.EncodeToString([]byte("not an image"))
	got := Answer(json.RawMessage(`{"success":true,"contentItems":[{"type":"inputImage","imageUrl":"data:image/png;base64,` + not + `"}]}`))
	if len(got.Content) != 1 || got.Content[0].MediaType != "" || !strings.HasPrefix(got.Content[0].Text, "[image left out: ") {
		t.Errorf("%+v", got)
	}
}
