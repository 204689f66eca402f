package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func offering(tools ...llm.Tool) *protocol.Request {
	return &protocol.Request{Request: &llm.Request{Tools: tools}, Model: protocol.Model{ID: "m"}, Namespace: "acme"}
}

func TestToolsAreFound(t *testing.T) {
	t.Parallel()
	r := offering(llm.Tool{Name: "read", Namespace: "files"}, llm.Tool{Name: "read", Namespace: "mail"}, llm.Tool{Name: "look"})
	for _, tt := range []struct {
		namespace, name string
		want            *llm.Tool
	}{{"mail", "read", &r.Tools[1]}, {"", "look", &r.Tools[2]}, {"", "read", nil}, {"files", "look", nil}} {
		if got := r.Tool(tt.namespace, tt.name); got != tt.want {
			t.Errorf("the tool %s.%s is %+v", tt.namespace, tt.name, got)
		}
	}
	for name, want := range map[string]*llm.Tool{"look": &r.Tools[2], "mail__read": &r.Tools[1], "read": &r.Tools[0], "gone": nil} {
		r.ToolChoice = llm.ToolChoice{Mode: "tool", Name: name}
		if got := r.ChosenTool(); got != want {
			t.Errorf("the choice %s is %+v", name, got)
		}
	}
	for _, tt := range []struct {
		choice llm.ToolChoice
		want   string
	}{
		{llm.ToolChoice{Mode: "tool", Name: "gone"}, `the tool choice names "gone", which the request does not offer`},
		{llm.ToolChoice{Mode: "maybe"}, `unknown tool choice "maybe"`},
	} {
		r.ToolChoice = tt.choice
		if e := r.InvalidChoice(); e.Code != llm.ErrInvalidRequest || e.Message != tt.want || e.Next == "" {
			t.Errorf("error %+v, want %q and what to do", e, tt.want)
		}
	}
}

func TestFreeformTools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		tool llm.Tool
		want string
	}{
		{
			"a grammar", llm.Tool{Freeform: &llm.Freeform{Syntax: "lark", Definition: `start: "<"`, Property: "patch"}},
			`{"type":"object","properties":{"patch":{"type":"string","description":"Text that follows this lark grammar:\nstart: \"<\""}},"required":["patch"],"additionalProperties":false}`,
		},
		{
			"any text", llm.Tool{Freeform: &llm.Freeform{}},
			`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`,
		},
		{
			"named by the tool's schema", llm.Tool{Freeform: &llm.Freeform{}, InputSchema: json.RawMessage(`{"required":["line"]}`)},
			`{"type":"object","properties":{"line":{"type":"string"}},"required":["line"],"additionalProperties":false}`,
		},
	} {
		if got := string(protocol.FreeformSchema(&tt.tool)); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	r := offering(
		llm.Tool{Name: "patch", Freeform: &llm.Freeform{Property: "diff"}}, llm.Tool{Name: "patch", Namespace: "other", Freeform: &llm.Freeform{}},
		llm.Tool{Name: "say", InputSchema: json.RawMessage(`{"required":["line"]}`)},
	)
	for _, tt := range []struct {
		name string
		call llm.ToolCall
		want string
	}{
		{"an object", llm.ToolCall{Name: "f", Input: ` {"a":1.50}`}, `{"a":1.50}`},
		{"nothing", llm.ToolCall{Name: "f", Input: " "}, `{}`},
		{"a list", llm.ToolCall{Name: "f", Input: `[1]`}, `{"input":"[1]"}`},
		{"broken JSON", llm.ToolCall{Name: "f", Input: `{"a":`}, `{"input":"{\"a\":"}`},
		{"text", llm.ToolCall{Name: "patch", Freeform: true, Input: "*** <Begin>"}, `{"diff":"*** <Begin>"}`},
		{"text that looks like JSON", llm.ToolCall{Name: "patch", Freeform: true, Input: "{}"}, `{"diff":"{}"}`},
		{"text of the tool of another namespace", llm.ToolCall{Name: "patch", Namespace: "other", Freeform: true, Input: "x"}, `{"input":"x"}`},
		{"text of a tool that takes JSON now", llm.ToolCall{Name: "say", Freeform: true, Input: "x"}, `{"line":"x"}`},
		{"text of a tool that is gone", llm.ToolCall{Name: "old", Freeform: true, Input: "x"}, `{"input":"x"}`},
	} {
		if got := string(r.Arguments(&tt.call)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestSettingsOfSampling(t *testing.T) {
	t.Parallel()
	var warned []string
	r := offering()
	r.Warn = func(s string) { warned = append(warned, s) }
	full := llm.Generation{
		MaxTokens: new(int64(9)), Temperature: new(0.5), TopP: new(0.9), TopK: new(int64(4)), FrequencyPenalty: new(0.1),
		PresencePenalty: new(0.2), Seed: new(int64(7)), Stop: []string{"END"},
	}
	r.Generation = full
	if got := protocol.Normalised(r).Generation; got.Temperature == nil || got.TopK == nil || len(warned) > 0 {
		t.Errorf("a model that takes all got %+v, warnings %q", got, warned)
	}
	r.Model.NoSampling = true
	once := protocol.Normalised(r)
	got := protocol.Normalised(once).Generation
	if got.Temperature != nil || got.TopP != nil || got.TopK != nil || got.FrequencyPenalty != nil || got.PresencePenalty != nil {
		t.Errorf("a model that takes none got %+v", got)
	}
	if got.MaxTokens != full.MaxTokens || got.Seed != full.Seed || len(got.Stop) != 1 {
		t.Errorf("what is no matter of sampling is gone: %+v", got)
	}
	const want = "m accepts no sampling settings; omitted: temperature, top_p, top_k, frequency_penalty, presence_penalty"
	if strings.Join(warned, "\n") != want {
		t.Errorf("warnings %q, want one: %q", warned, want)
	}
	if r.Generation.Temperature == nil {
		t.Error("the request itself was changed")
	}
}
