package registry

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

var greet = contract.Descriptor{
	Name: "greet", Description: "d",
	InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"times":{"type":"integer","minimum":1}},"required":["name"],"additionalProperties":false}`),
}

func snapshot(t *testing.T, tools ...contract.Descriptor) *Snapshot {
	t.Helper()
	r := New("p")
	if problems := r.Set("p", contract.ToolSet{Revision: "1", Tools: tools}); len(problems) > 0 {
		t.Fatal(problems)
	}
	return r.Snapshot()
}

func TestParse(t *testing.T) {
	lenient := greet
	lenient.Name, lenient.LenientArguments = "lenient", true
	patch := contract.Descriptor{Name: "patch", Freeform: &contract.Freeform{Syntax: "lark", Definition: "start: /.*/", Property: "input"}}
	nested := greet
	nested.Name, nested.InputSchema = "nested", json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"},"c":{"type":["string","null"]}}},"n":{"type":"integer"}}}`)
	lists := greet
	lists.Name, lists.InputSchema = "lists", json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"anyOf":[`+
		`{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"string"}]}}}`)
	unchecked := greet // no Go program compiles its pattern
	unchecked.Name, unchecked.UncheckedArguments = "unchecked", true
	unchecked.InputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=x)"}},"required":["a"]}`)
	lent := lenient // what is not restricted any more is referred to
	lent.Name, lent.InputSchema = "lent", json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/additionalProperties"}},"additionalProperties":{"type":"string"}}`)
	s := snapshot(t, greet, lenient, patch, nested, lists, unchecked, lent)
	for _, tc := range []struct {
		name string
		call llm.ToolCall
		want contract.Input // compared by its text or arguments
		err  string         // part of the error
	}{
		{"valid", llm.ToolCall{Name: "greet", Input: `{"name":"a"}`}, contract.Input{Arguments: json.RawMessage(`{"name":"a"}`)}, ""},
		{"namespace of functions", llm.ToolCall{Namespace: "functions", Name: "greet", Input: `{"name":"a"}`}, contract.Input{Arguments: json.RawMessage(`{"name":"a"}`)}, ""},
		{"no JSON", llm.ToolCall{Name: "greet", Input: `{bad`}, contract.Input{}, "failed to parse function arguments: "},
		{"missing", llm.ToolCall{Name: "greet", Input: `{}`}, contract.Input{}, "name"},
		{"empty is an empty object", llm.ToolCall{Name: "greet", Input: ` `}, contract.Input{}, "name"},
		{"wrong type", llm.ToolCall{Name: "greet", Input: `{"name":5}`}, contract.Input{}, "failed to parse function arguments: `name`: "},
		{"wrong value", llm.ToolCall{Name: "greet", Input: `{"name":"a","times":0}`}, contract.Input{}, "failed to parse function arguments: `times`: "},
		{"unknown property", llm.ToolCall{Name: "greet", Input: `{"name":"a","x":1}`}, contract.Input{}, "x"},
		{"unknown property, lenient", llm.ToolCall{Name: "lenient", Input: `{"name":"a","x":1}`}, contract.Input{Arguments: json.RawMessage(`{"name":"a","x":1}`)}, ""},
		{"reference to what is not restricted", llm.ToolCall{Name: "lent", Input: `{"a":5,"b":6}`}, contract.Input{Arguments: json.RawMessage(`{"a":5,"b":6}`)}, ""},
		{"null for what need not be there", llm.ToolCall{Name: "greet", Input: `{"name":"a","times":null}`}, contract.Input{Arguments: json.RawMessage(`{"name":"a"}`)}, ""},
		{"null for what must be there", llm.ToolCall{Name: "greet", Input: `{"name":null,"times":null}`}, contract.Input{}, "`name`: "},
		{"null inside", llm.ToolCall{Name: "nested", Input: `{"a":{"b":null,"c":null},"n":9007199254740993}`}, contract.Input{Arguments: json.RawMessage(`{"a":{"c":null},"n":9007199254740993}`)}, ""},
		{"null that is allowed", llm.ToolCall{Name: "nested", Input: `{"a": {"c": null}}`}, contract.Input{Arguments: json.RawMessage(`{"a": {"c": null}}`)}, ""},
		{"null as all of it", llm.ToolCall{Name: "nested", Input: `null`}, contract.Input{}, "want \"object\""},
		{"alternatives that would be tried 2^40 times", llm.ToolCall{Name: "lists", Input: `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`}, contract.Input{}, "failed to parse function arguments: validating the value against the schema would take too long"},
		{"unchecked", llm.ToolCall{Name: "unchecked", Input: `{"b": null}`}, contract.Input{Arguments: json.RawMessage(`{"b": null}`)}, ""},
		{"unchecked, empty", llm.ToolCall{Name: "unchecked", Input: ``}, contract.Input{Arguments: json.RawMessage(`{}`)}, ""},
		{"unchecked, a list", llm.ToolCall{Name: "unchecked", Input: `[1]`}, contract.Input{}, "failed to parse function arguments: they are not a JSON object"},
		{"unchecked, no JSON", llm.ToolCall{Name: "unchecked", Input: `{bad`}, contract.Input{}, "failed to parse function arguments: "},
		{"text for a function", llm.ToolCall{Name: "greet", Input: "hi", Freeform: true}, contract.Input{}, "takes JSON arguments"},
		{"freeform", llm.ToolCall{Name: "patch", Input: "raw", Freeform: true}, contract.Input{Text: "raw", Freeform: true}, ""},
		{"freeform as a function", llm.ToolCall{Name: "patch", Input: `{"input":"raw"}`}, contract.Input{Text: "raw", Freeform: true}, ""},
		{"freeform as a function without its property", llm.ToolCall{Name: "patch", Input: `{"patch":"raw"}`}, contract.Input{}, "missing field `input`"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, ok := s.Lookup(tc.call.Namespace, tc.call.Name)
			if !ok {
				t.Fatal("not found")
			}
			got, err := e.Parse(&tc.call)
			switch {
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("error = %v, want one with %q", err, tc.err)
			case tc.err == "" && err != nil:
				t.Error(err)
			case string(got.Arguments) != string(tc.want.Arguments) || got.Text != tc.want.Text || got.Freeform != tc.want.Freeform:
				t.Errorf("input = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestSetLeavesOutInvalidTools(t *testing.T) {
	r := New("p")
	problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{
		greet, greet, {Name: "none"}, {Name: "bad name", InputSchema: greet.InputSchema},
		{Name: "worse", InputSchema: json.RawMessage(`{`)}, {Name: "lost", InputSchema: greet.InputSchema, Source: "nowhere"},
	}, Sources: []contract.Source{{Name: "server"}}})
	if len(problems) != 5 {
		t.Errorf("problems:\n%v", errors.Join(problems...))
	}
	if n := len(r.Snapshot().Entries()); n != 1 {
		t.Errorf("%d tools, want 1", n)
	}
}

func TestEarlierPluginWins(t *testing.T) {
	r := New("first", "second")
	r.Set("second", contract.ToolSet{Tools: []contract.Descriptor{greet}})
	before := r.Snapshot()
	r.Set("first", contract.ToolSet{Tools: []contract.Descriptor{greet}})
	s := r.Snapshot()
	if e, _ := s.Lookup("", "greet"); e.Plugin != "first" {
		t.Errorf("greet is of %q", e.Plugin)
	}
	if len(s.Collisions) != 1 {
		t.Errorf("collisions = %q", s.Collisions)
	}
	if e, _ := before.Lookup("", "greet"); e.Plugin != "second" {
		t.Error("a snapshot changed")
	}
	r.Remove("first")
	if got := r.Snapshot().Plugins(); !slices.Equal(got, []string{"second"}) {
		t.Errorf("plugins = %q", got)
	}
}

// The digest, to which approvals are bound, depends on the descriptor's content.
func TestDigestFollowsTheDescriptor(t *testing.T) {
	changed := greet
	changed.Effects = []contract.Effect{contract.NetworkEffect{Host: "example.com"}}
	a, _ := snapshot(t, greet).Lookup("", "greet")
	b, _ := snapshot(t, greet).Lookup("", "greet")
	c, _ := snapshot(t, changed).Lookup("", "greet")
	if a.Digest != b.Digest || a.Digest == c.Digest {
		t.Errorf("digests: %s %s, changed %s", a.Digest, b.Digest, c.Digest)
	}
}

func TestModelTools(t *testing.T) {
	tool := func(name string, change func(*contract.Descriptor)) contract.Descriptor {
		d := greet
		d.Name = name
		change(&d)
		return d
	}
	s := snapshot(t,
		tool("direct", func(*contract.Descriptor) {}),
		tool("deferred", func(d *contract.Descriptor) { d.Exposure = contract.ExposureDeferred }),
		tool("hidden", func(d *contract.Descriptor) { d.Exposure = contract.ExposureHidden }),
		tool("edit", func(d *contract.Descriptor) { d.ModelTraits = []string{"edits"} }),
		tool("look", func(d *contract.Descriptor) { d.ModelTraits = []string{"images"} }),
		tool("patch", func(d *contract.Descriptor) {
			d.ModelTraits = []string{"patches"}
			d.InputSchema, d.Freeform = nil, &contract.Freeform{Syntax: "lark", Definition: "start: /.*/", Property: "input"}
		}),
	)
	names := func(row llm.ModelRow) (out []string) {
		for _, tl := range s.ModelTools(row) {
			name := tl.Name
			if tl.Freeform != nil {
				name += "(freeform)"
			}
			out = append(out, name)
		}
		return out
	}
	if got := names(llm.ModelRow{}); !slices.Equal(got, []string{"direct", "deferred", "patch"}) {
		t.Errorf("plain model: %q", got)
	}
	row := llm.ModelRow{InputModalities: []string{"text", "image"}, ToolKinds: []string{"function", "freeform"}}
	if got := names(row); !slices.Equal(got, []string{"direct", "deferred", "look", "patch(freeform)"}) {
		t.Errorf("model with images and grammars: %q", got)
	}
	row.ToolTraits = []string{"edits"}
	if got := names(row); !slices.Equal(got, []string{"direct", "deferred", "edit", "look"}) {
		t.Errorf("model that does not write patches: %q", got)
	}
	s = s.With(&Entry{Descriptor: contract.Descriptor{Name: "find"}, Finds: true, Declare: func(llm.ModelRow) (llm.Tool, bool) { return llm.Tool{Name: "find", Search: true}, true }})
	if got := names(row); !slices.Equal(got, []string{"direct", "edit", "look", "find"}) {
		t.Errorf("model that searches: %q", got)
	}
}

// Who may call a tool depends on its nesting; a tool without one may be called by the model and by other calls.
func TestNesting(t *testing.T) {
	nesting := func(name string, n contract.Nesting, change func(*contract.Descriptor)) contract.Descriptor {
		d := greet
		d.Name, d.Nesting = name, n
		change(&d)
		return d
	}
	plain := func(*contract.Descriptor) {}
	s := snapshot(t,
		nesting("unset", contract.NestingUnknown, plain), nesting("both", contract.NestingBoth, plain),
		nesting("never", contract.NestingNever, plain), nesting("only", contract.NestingOnly, plain),
		nesting("deferred", contract.NestingOnly, func(d *contract.Descriptor) { d.Exposure = contract.ExposureDeferred }),
		nesting("hidden", contract.NestingOnly, func(d *contract.Descriptor) { d.Exposure = contract.ExposureHidden }),
		nesting("look", contract.NestingBoth, func(d *contract.Descriptor) { d.ModelTraits = []string{"images"} }),
	)
	var model, code []string
	for _, tl := range s.ModelTools(llm.ModelRow{}) {
		model = append(model, tl.Name)
	}
	for _, e := range s.CodeTools(nil) {
		code = append(code, e.Name)
	}
	if want := []string{"unset", "both", "never"}; !slices.Equal(model, want) {
		t.Errorf("the model is offered %q, want %q", model, want)
	}
	if want := []string{"unset", "both", "only", "deferred"}; !slices.Equal(code, want) {
		t.Errorf("code finds %q, want %q", code, want)
	}
	if n := len(s.CodeTools([]string{"images"})); n != 5 {
		t.Errorf("with images, code finds %d tools, want 5", n)
	}
	for _, e := range s.Entries() {
		byModel, byCode := e.CheckCaller(false) == nil, e.CheckCaller(true) == nil
		if byModel != (e.Nesting != contract.NestingOnly) || byCode != (e.Nesting != contract.NestingNever) {
			t.Errorf("%s: by the model %v, by code %v", e.Name, byModel, byCode)
		}
	}
}

// A tool has the same declaration and digest whether its descriptor comes from the plugin or from a cache.
func TestOrderOfASchemaIsIrrelevant(t *testing.T) {
	tool := func(schema string) (*Entry, llm.Tool) {
		r := New("p")
		set := contract.ToolSet{Tools: []contract.Descriptor{{Name: "f", InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(schema)}}}
		if problems := r.Set("p", set); problems != nil {
			t.Fatal(problems)
		}
		s := r.Snapshot()
		return s.Entries()[0], s.ModelTools(llm.ModelRow{})[0]
	}
	sent, told := tool(`{"type":"object", "properties":{"b":{"type":"number","maximum":12345678901234567890},"a":{"description":"<é>"}}}`)
	cached, again := tool(`{"properties":{"a":{"description":"<\u00e9>"},"b":{"maximum":12345678901234567890,"type":"number"}},"type":"object"}`)
	if sent.Digest != cached.Digest || string(told.InputSchema) != string(again.InputSchema) {
		t.Errorf("%s %s\nand %s %s", sent.Digest, told.InputSchema, cached.Digest, again.InputSchema)
	}
	if want := `{"properties":{"a":{"description":"<é>"},"b":{"maximum":12345678901234567890,"type":"number"}},"type":"object"}`; string(told.InputSchema) != want {
		t.Errorf("%s, want %s", told.InputSchema, want)
	}
}

// Host tools come after those of plugins, in a catalogue of their own; how a model is offered them is up to them.
func TestHostTools(t *testing.T) {
	for _, offered := range []bool{true, false} {
		base := snapshot(t, greet)
		s := base.With(&Entry{
			HostTool: "gantry:own", Descriptor: contract.Descriptor{Name: "own"},
			Declare: func(llm.ModelRow) (llm.Tool, bool) { return llm.Tool{Name: "own"}, offered },
		})
		e, ok := s.Lookup("", "own")
		if !ok || e.HostTool != "gantry:own" || !slices.Equal(s.Plugins(), []string{"p"}) || len(s.Entries()) != 2 || s.Entries()[1] != e {
			t.Errorf("offered %v: %+v, %v", offered, e, s.Plugins())
		}
		told := slices.ContainsFunc(s.ModelTools(llm.ModelRow{}), func(t llm.Tool) bool { return t.Name == "own" })
		if _, there := base.Lookup("", "own"); told != offered || there || len(base.Entries()) != 1 {
			t.Errorf("offered %v: the model is offered it: %v", offered, told)
		}
	}
}

// What is left of a catalogue with host tools is found by name, and what was left out is not.
func TestOnly(t *testing.T) {
	t.Parallel()
	named := func(n string) *Entry { return &Entry{Descriptor: contract.Descriptor{Name: n}} }
	plugin, other, host := named("a"), named("b"), named("c")
	s := (&Snapshot{byName: map[key]*Entry{keyOf("", "a"): plugin, keyOf("", "b"): other}, entries: []*Entry{plugin, other}}).With(host)
	only := s.Only(func(e *Entry) bool { return e != other })
	for name, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, ok := only.Lookup("", name); ok != want {
			t.Errorf("%s: found %v, want %v", name, ok, want)
		}
	}
}

// A plugin's tool with the name of a host tool is left out, and its author is told whose name it is.
func TestReservedNames(t *testing.T) {
	r := New("p")
	r.Reserve("", "greet", "gantry:own")
	problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{greet}})
	if len(problems) != 1 {
		t.Fatalf("problems %q", problems)
	}
	text, next := hint.Split(problems[0])
	if text != `tool "greet" is left out: its name is reserved for the host tool "gantry:own"` || next != "rename it, or give it a namespace" {
		t.Errorf("%q, next %q", text, next)
	}
	if _, ok := r.Snapshot().Lookup("", "greet"); ok {
		t.Error("the plugin took the host's name")
	}
	d := greet
	d.Namespace = "functions" // the default one
	if problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) != 1 {
		t.Errorf("in the default namespace: %q", problems)
	}
	d.Namespace = "mine"
	if problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) != 0 {
		t.Errorf("in a namespace: %q", problems)
	}
}

// Whatever would make a tool fail at its first call is reported when its plugin sends it, and the other tools are used.
func TestSchemasAreCheckedWhenTheyAreSent(t *testing.T) {
	for _, tc := range []struct{ name, schema, want string }{
		{"pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`, "does not compile"},
		{"reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, "does not lead to a schema"},
		{"default", `{"type":"object","properties":{"a":{"type":"string","default":5}}}`, "does not compile"},
		{"two values", `{"type":"object"} {"type":"object"}`, "not a JSON Schema"},
		{"reference to what lenient leaves out", `{"type":"object","properties":{"a":{"$ref":"#/additionalProperties/not"}},"additionalProperties":{"not":{}}}`, "does not lead to a schema"},
	} {
		r := New("p")
		bad := contract.Descriptor{Name: "bad", InputSchema: json.RawMessage(tc.schema), LenientArguments: strings.Contains(tc.name, "lenient")}
		for range 2 { // the second time, the other tool is known
			problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{greet, bad}})
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), `tool "bad" is left out`) || !strings.Contains(problems[0].Error(), tc.want) {
				t.Errorf("%s: %v, want %q", tc.name, problems, tc.want)
			}
			if n := len(r.Snapshot().Entries()); n != 1 {
				t.Errorf("%s: %d tools", tc.name, n)
			}
		}
	}
}

// A tool that has not changed keeps what is known of it when its plugin sends a new set; one that has changed does not.
func TestUnchangedToolsAreKept(t *testing.T) {
	other := greet
	other.Name = "other"
	r := New("p")
	set := func(revision string, tools ...contract.Descriptor) (kept, second *Entry) {
		if problems := r.Set("p", contract.ToolSet{Revision: revision, Tools: tools}); len(problems) > 0 {
			t.Fatal(problems)
		}
		kept, _ = r.Snapshot().Lookup("", "greet")
		second, _ = r.Snapshot().Lookup("", "other")
		return kept, second
	}
	validator := func(e *Entry) *contract.Validator {
		v, err := e.Schema()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before, was := set("1", greet, other)
	other.Description, other.InputSchema = "new", json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string"}}}`)
	after, is := set("2", other, greet)
	if validator(after) != validator(before) || after.Revision != "2" || before.Revision != "1" || after.Digest != before.Digest {
		t.Errorf("unchanged: %+v, before %+v", after, before)
	}
	if validator(is) == validator(was) || is.Description != "new" || is.Digest == was.Digest || is.SchemaText() != "colour" {
		t.Errorf("changed: %+v, before %+v", is, was)
	}
}
