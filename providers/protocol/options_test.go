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

func TestOptionsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		`{"spead":"x"}`:             `what: unknown key "spead"; the nearest known one is "speed"`,
		`{"Speed":"x"}`:             `what: unknown key "Speed"; the nearest known one is "speed"`,
		`{"numCtx":1}`:              `what: unknown key "numCtx"; the nearest known one is "num_ctx"`,
		`{"thinking":{"leve":"x"}}`: `what: thinking: unknown key "leve"; the nearest known one is "level"`,
		`{"edits":[{},{"lvl":1}]}`:  `what: edits: unknown key "lvl"; the nearest known one is "level"`,
		`{"hidden":1}`:              `what: unknown key "hidden"`,
		`{"speed":1}`:               `what: speed: a number can't stand where a value of type string is needed`,
		`{"edits":{}}`:              `what: edits: a object can't stand where`,
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
	if err := protocol.DecodeStrictly(json.RawMessage("null"), &o, "what"); err != nil {
		t.Errorf("null: %v", err)
	}
	_ = o.hidden
}
