package contract

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValidManifest(t *testing.T) {
	if err := sample().Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Manifest{Name: "p", Version: "0.0.1", Kind: KindProvider, ContractVersions: []uint32{1}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestInvalidManifests(t *testing.T) {
	attribute := func(a ConfigAttribute) func(*Manifest) {
		return func(m *Manifest) { m.Config.Attributes = []ConfigAttribute{a} }
	}
	tool := func(change func(*Descriptor)) func(*Manifest) {
		return func(m *Manifest) { change(&m.Tools[0]) }
	}
	process := func(change func(*ConfigNestedBlock)) func(*Manifest) {
		return func(m *Manifest) {
			n := ConfigNestedBlock{Name: "server", Labels: []string{"name"}, Process: true}
			change(&n)
			m.Capabilities, m.Config.Blocks = []string{"spawn"}, []ConfigNestedBlock{n}
		}
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	tests := []struct {
		name   string
		change func(*Manifest)
		want   string
	}{
		{"no name", func(m *Manifest) { m.Name = "" }, `name ""`},
		{"upper case", func(m *Manifest) { m.Name = "Weather" }, `name "Weather"`},
		{"digit first", func(m *Manifest) { m.Name = "1weather" }, `name "1weather"`},
		{"path in name", func(m *Manifest) { m.Name = "../weather" }, `name "../weather"`},
		{"long name", func(m *Manifest) { m.Name = strings.Repeat("a", 65) }, "1 to 64"},
		{"no version", func(m *Manifest) { m.Version = "" }, `version ""`},
		{"version with v", func(m *Manifest) { m.Version = "v1.2.3" }, `version "v1.2.3"`},
		{"two numbers", func(m *Manifest) { m.Version = "1.2" }, `version "1.2"`},
		{"leading zero", func(m *Manifest) { m.Version = "1.02.3" }, "version"},
		{"kind", func(m *Manifest) { m.Kind = KindUnknown }, "kind"},
		{"no contract version", func(m *Manifest) { m.ContractVersions = nil }, "at least one"},
		{"falling contract versions", func(m *Manifest) { m.ContractVersions = []uint32{2, 1} }, "ascend"},
		{"contract version 0", func(m *Manifest) { m.ContractVersions = []uint32{0} }, "ascend"},
		{"long instructions", func(m *Manifest) { m.Instructions = strings.Repeat("x", 8193) }, "8193 bytes"},
		{"bytes", func(m *Manifest) { m.Instructions = "\xff" }, "UTF-8"},
		{"capability twice", func(m *Manifest) { m.Capabilities = []string{"ask", "ask"} }, `capabilities: "ask" appears twice`},
		{"negative limit", func(m *Manifest) { m.Limits.StopMS = -1 }, "-1 is negative"},
		{"command name", func(m *Manifest) { m.Commands[0].Name = "Log In" }, `command "Log In"`},
		{"command schema", func(m *Manifest) { m.Commands[0].InputSchema = raw(`{"type":"string"}`) }, `must be "object"`},
		{"provider with tools", func(m *Manifest) { m.Kind = KindProvider }, "not allowed for a provider"},

		{"process by two labels", process(func(n *ConfigNestedBlock) { n.Labels = []string{"a", "b"} }), "config.server: a block that declares a process has one label"},
		{"process without a name", process(func(n *ConfigNestedBlock) { n.Labels = nil }), "config.server: a block that declares a process has one label"},
		{"process attribute", process(func(n *ConfigNestedBlock) {
			n.Block.Attributes = []ConfigAttribute{{Name: "command", Type: raw(`"string"`)}}
		}), "config.server.command: the host reads this attribute itself"},
		{"process block", process(func(n *ConfigNestedBlock) { n.Block.Blocks = []ConfigNestedBlock{{Name: "sandbox"}} }),
			"config.server.sandbox: the host reads this block itself"},
		{"process inside", process(func(n *ConfigNestedBlock) {
			n.Block.Blocks = []ConfigNestedBlock{{Name: "inner", MaxItems: 1, Process: true}}
		}), "config.server.inner: only a block of the config block itself"},
		{"process of a provider", func(m *Manifest) {
			process(func(*ConfigNestedBlock) {})(m)
			m.Kind, m.Tools = KindProvider, nil
		}, "config.server: a provider can't declare processes"},
		{"process without spawn", func(m *Manifest) {
			process(func(*ConfigNestedBlock) {})(m)
			m.Capabilities = nil
		}, `config.server: a block that declares a process needs the capability "spawn"`},

		{"attribute name", attribute(ConfigAttribute{Name: "Units", Type: raw(`"string"`)}), "config.Units: a lower_snake"},
		{"attribute without name", attribute(ConfigAttribute{Type: raw(`"string"`)}), "config: empty name"},
		{"no type", attribute(ConfigAttribute{Name: "a"}), "config.a: type"},
		{"unknown type", attribute(ConfigAttribute{Name: "a", Type: raw(`"strnig"`)}), `unknown type "strnig"`},
		{"list of nothing", attribute(ConfigAttribute{Name: "a", Type: raw(`["list"]`)}), "config.a: type"},
		{"list of unknown", attribute(ConfigAttribute{Name: "a", Type: raw(`["list",["map","int"]]`)}), `unknown type "int"`},
		{"object without attributes", attribute(ConfigAttribute{Name: "a", Type: raw(`["object",null]`)}), "requires its attributes"},
		{"optional that is not there", attribute(ConfigAttribute{Name: "a", Type: raw(`["object",{},["x"]]`)}), `"x" does not exist`},
		{"type of types of types", attribute(ConfigAttribute{Name: "a",
			Type: raw(strings.Repeat(`["list",`, 40) + `"bool"` + strings.Repeat("]", 40))}), "nested more than"},
		{"default of another type", attribute(ConfigAttribute{Name: "a", Type: raw(`"string"`), Default: raw("5")}),
			"config.a: default: a string is required, not a number"},
		{"default inside", attribute(ConfigAttribute{Name: "a", Type: raw(`["list","number"]`), Default: raw(`[1,"2"]`)}),
			"element 1: a number is required"},
		{"default with extra key", attribute(ConfigAttribute{Name: "a", Type: raw(`["object",{"x":"bool"}]`), Default: raw(`{"x":true,"y":1}`)}),
			`attribute "y" does not exist`},
		{"default without a key", attribute(ConfigAttribute{Name: "a", Type: raw(`["object",{"x":"bool"}]`), Default: raw(`{}`)}),
			`attribute "x" is missing`},
		{"default of a map", attribute(ConfigAttribute{Name: "a", Type: raw(`["map","bool"]`), Default: raw(`{"k":1}`)}), `key "k"`},
		{"default of a tuple", attribute(ConfigAttribute{Name: "a", Type: raw(`["tuple",["bool"]]`), Default: raw(`[true,true]`)}), "not a list of 2"},
		{"default is no JSON", attribute(ConfigAttribute{Name: "a", Type: raw(`"string"`), Default: raw("metric")}), "not valid JSON"},
		{"default not allowed", attribute(ConfigAttribute{Name: "a", Type: raw(`"string"`), Default: raw(`"c"`), Allowed: []string{"a", "b"}}),
			`"c" is not one of`},
		{"allowed numbers", attribute(ConfigAttribute{Name: "a", Type: raw(`"number"`), Allowed: []string{"1"}}), "only a string can have allowed values"},
		{"required with default", attribute(ConfigAttribute{Name: "a", Type: raw(`"bool"`), Default: raw("true"), Required: true}), "a required attribute can't have a default"},
		{"secret number", attribute(ConfigAttribute{Name: "a", Type: raw(`"number"`), Sensitive: true}), "only a string"},
		{"secret default", attribute(ConfigAttribute{Name: "a", Type: raw(`"string"`), Default: raw(`"x"`), Sensitive: true}), "a secret can't have a default"},
		{"endpoint number", attribute(ConfigAttribute{Name: "a", Type: raw(`["list","number"]`), Endpoint: true}), "can be an endpoint"},
		{"endpoint default", attribute(ConfigAttribute{Name: "a", Type: raw(`"string"`), Default: raw(`"https://x"`), Endpoint: true}), "an endpoint can't have a default"},
		{"attribute and block", func(m *Manifest) { m.Config.Blocks[0].Name = "units" }, `config: "units" appears twice`},
		{"label and attribute", func(m *Manifest) { m.Config.Blocks[0].Labels = []string{"lat"} }, `config.place: "lat" appears twice`},
		{"items", func(m *Manifest) { m.Config.Blocks[0].MinItems = 4 }, "from 4 to 3"},

		{"tool name", tool(func(d *Descriptor) { d.Name = "fore-cast" }), `tool "fore-cast"`},
		{"namespace", tool(func(d *Descriptor) { d.Namespace = "a/b" }), `namespace "a/b"`},
		{"no schema", tool(func(d *Descriptor) { d.InputSchema = nil }), "an input schema or a freeform"},
		{"schema is no JSON", tool(func(d *Descriptor) { d.InputSchema = raw("{") }), "not a JSON Schema"},
		{"schema of a string", tool(func(d *Descriptor) { d.InputSchema = raw(`{"type":"string"}`) }), `must be "object"`},
		{"schema does not compile", tool(func(d *Descriptor) { d.InputSchema = raw(`{"type":"object","properties":{"a":{"pattern":"("}}}`) }),
			"input schema: does not compile"},
		{"schema from elsewhere", tool(func(d *Descriptor) { d.InputSchema = raw(`{"type":"object","$ref":"https://example.com/s.json"}`) }),
			"does not lead to a schema in this document"},
		{"schema with a bad default", tool(func(d *Descriptor) {
			d.InputSchema = raw(`{"type":"object","properties":{"a":{"type":"string","default":1}}}`)
		}), "input schema: does not compile"},
		{"output schema", tool(func(d *Descriptor) { d.OutputSchema = raw(`{"type":7}`) }), "output schema"},
		{"no caller", tool(func(d *Descriptor) { d.Exposure, d.Nesting = ExposureHidden, NestingNever }), "so it has no caller"},
		{"language", tool(func(d *Descriptor) { d.Effects = []Effect{SessionInputEffect{SessionID: "1", Language: "Python"}} }), `the language "Python"`},
		{"freeform and schema", tool(func(d *Descriptor) { d.Freeform = &Freeform{Property: "x"} }), "can't have an input schema"},
		{"tool twice", func(m *Manifest) { m.Tools = append(m.Tools, m.Tools[0]) }, "declared twice in the namespace"},
		{"freeform that checks its arguments", func(m *Manifest) { m.Tools[1].UncheckedArguments = true }, "no arguments that could be unchecked"},
		{"unchecked, not an object", tool(func(d *Descriptor) { d.UncheckedArguments, d.InputSchema = true, json.RawMessage(`[]`) }), "not a JSON Schema"},
		{"unchecked, of another type", tool(func(d *Descriptor) {
			d.UncheckedArguments, d.InputSchema = true, json.RawMessage(`{"type":["object"]}`)
		}), `the type must be "object"`},
		{"unchecked, too deep", tool(func(d *Descriptor) {
			d.UncheckedArguments = true
			d.InputSchema = json.RawMessage(`{"type":"object","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`)
		}), "nested more than 200 levels deep"},
		{"unchecked, too large", tool(func(d *Descriptor) {
			d.UncheckedArguments = true
			d.InputSchema = json.RawMessage(`{"type":"object","x":"` + strings.Repeat("x", 1<<20) + `"}`)
		}), "the maximum is 1048576"},
		{"freeform without property", func(m *Manifest) { m.Tools[1].Freeform.Property = "" }, "name of its property"},
		{"grammar of nothing", func(m *Manifest) { m.Tools[1].Freeform.Definition = "start: x" }, "the grammar requires a syntax"},
		{"syntax of nothing", func(m *Manifest) { m.Tools[1].Freeform.Syntax = "lark" }, "requires a grammar"},
		{"unknown syntax", func(m *Manifest) { m.Tools[1].Freeform.Syntax = "ebnf" }, `"ebnf" is neither`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := sample()
			tt.change(m)
			if err := m.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestValidateReturnsAllErrors(t *testing.T) {
	err := (&Manifest{Tools: []Descriptor{{}}}).Validate()
	for _, want := range []string{"name", "version", "kind", "contract versions", "tool"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word about %s in: %v", want, err)
		}
	}
}
