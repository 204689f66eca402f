package protocol_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type inner struct {
	Level string `json:"level"`
}

type embedded struct {
	NumCtx *int64 `json:"num_ctx,omitempty"`
}

type testOptions struct {
	embedded
	Speed    string                     `json:"speed"`
	Thinking *inner                     `json:"thinking"`
	Edits    []inner                    `json:"edits"`
	Labels   map[string]string          `json:"labels"`
	Anything json.RawMessage            `json:"anything"`
	Settings map[string]json.RawMessage `json:"settings"`
	hidden   int
}

func TestReadOptions(t *testing.T) {
	t.Parallel()
	r := offering()
	r.ProviderOptions = map[string]json.RawMessage{
		"format": json.RawMessage(`{"speed":"fast","num_ctx":1,"labels":{"x":"y"},"anything":{"a":{"b":1}},"settings":{"a":{"b":1}},"edits":[{"level":"e"}]}`),
		"acme":   json.RawMessage(` {"num_ctx":2,"thinking":{"level":"low"}}`),
		"other":  json.RawMessage(`{"speed":"slow"}`),
	}
	var o testOptions
	if err := protocol.ReadOptions(r, "format", &o); err != nil {
		t.Fatal(err)
	}
	if o.Speed != "fast" || *o.NumCtx != 2 || o.Thinking.Level != "low" || o.Edits[0].Level != "e" || o.Labels["x"] != "y" {
		t.Errorf("options %+v", o)
	}
	r.ProviderOptions["acme"] = json.RawMessage(`{"sped":"x"}`)
	if err := protocol.ReadOptions(r, "format", &o); err == nil || !strings.Contains(err.Error(), `provider options "acme": unknown key "sped"`) {
		t.Errorf("error %v", err)
	}
}

// Among many names, those that the written one is a part of, or that have other separators, come before a chance resemblance.
func TestTheKeyThatWasMeant(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"max_token": "max_tokens_field", "maxTokensField": "max_tokens_field", "max-tokens-field": "max_tokens_field", "no_stor": "no_store",
		"nostore": "no_store", "parallel_tools": "no_parallel_tools", "no_image": "no_images", "reasoning": "reasoning_field", "sanitiser": "sanitizer",
		"moon": "", "x": "", "stream": "no_stream_usage",
	} {
		var c protocol.Compat
		err := protocol.DecodeStrictly(json.RawMessage(`{"`+key+`":1}`), &c, "compatibility")
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || !strings.Contains(e.Next, "max_tokens_field") {
			t.Fatalf("%s: %v", key, err)
		}
		_, hint, _ := strings.Cut(e.Message, "did you mean ")
		if got := strings.Trim(hint, `"?`); got != want {
			t.Errorf("%s: meant %q, want %q", key, got, want)
		}
	}
}

func TestOptionsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		`{"spead":"x"}`:             `what: unknown key "spead"; did you mean "speed"?`,
		`{"Speed":"x"}`:             `what: unknown key "Speed"; did you mean "speed"?`,
		`{"numCtx":1}`:              `what: unknown key "numCtx"; did you mean "num_ctx"?`,
		`{"thinking":{"leve":"x"}}`: `what: thinking: unknown key "leve"; did you mean "level"?`,
		`{"edits":[{},{"lvl":1}]}`:  `what: edits: unknown key "lvl"; did you mean "level"?`,
		`{"hidden":1}`:              `what: unknown key "hidden"`,
		`{"thinking_level":"x"}`:    `what: unknown key "thinking_level"; did you mean "thinking"?`,
		`{"ctx":1}`:                 `what: unknown key "ctx"`,
		`{"speed":1}`:               `what: speed: expected a value of type string instead of number`,
		`{"edits":{}}`:              `what: edits: expected a value of type`,
		`[]`:                        `what: a JSON object is needed`,
		`"x"`:                       `what: a JSON object is needed`,
		`{`:                         `what: unexpected end of JSON input`,
		`{} {}`:                     `what: invalid character '{' after top-level value`,
		` `:                         `what: unexpected end of JSON input`,
	} {
		var o testOptions
		err := protocol.DecodeStrictly(json.RawMessage(options), &o, "what")
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Code != llm.ErrInvalidRequest || !strings.Contains(e.Message, want) || e.Next == "" {
			t.Errorf("%s: error %v, want %q and what to do", options, err, want)
		}
	}
	var o testOptions
	if err := protocol.DecodeStrictly(json.RawMessage(`{"moon_phase":1}`), &o, "what"); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("a key that resembles none: %v", err)
	}
	if err := protocol.DecodeStrictly(json.RawMessage("null"), &o, "what"); err != nil {
		t.Errorf("null: %v", err)
	}
	_ = o.hidden
}
