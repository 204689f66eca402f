package bind

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/sdk/contract"
)

type fatal interface{ Fatalf(string, ...any) }

// block makes a block of layers, each a text.
func block(t fatal, layers ...string) Block {
	b := Block{Files: make(diag.Files), Plugin: "p", Inspect: "look"}
	for i, text := range layers {
		name := fmt.Sprintf("%d.hcl", i)
		b.Files[name] = []byte(text)
		f, ds := hclsyntax.ParseConfig([]byte(text), name, hcl.InitialPos)
		if ds.HasErrors() {
			t.Fatalf("%v in %s", ds, text)
		}
		scope := function.NewScope(function.Sources{
			LookupEnv: func(n string) (string, bool) { return "value of " + n, n != "NOPE" },
			Secret:    func(n string) (string, error) { return "secret " + n, nil },
		}, "/")
		b.Fragments = append(b.Fragments, Fragment{Body: f.Body, Scope: scope, Header: f.Body.MissingItemRange()})
	}
	return b
}

func attribute(name, ty string) contract.ConfigAttribute {
	return contract.ConfigAttribute{Name: name, Type: json.RawMessage(ty)}
}

func TestTypes(t *testing.T) {
	for _, tt := range []struct{ ty, text, want string }{
		{`"string"`, `"a"`, `"a"`},
		{`"string"`, `5`, `"5"`},
		{`"string"`, `true`, `"true"`},
		{`"string"`, `null`, `null`},
		{`"string"`, `"<&>\u2028"`, `"<&>\u2028"`},
		{`"number"`, `"2"`, `2`},
		{`"number"`, `0.1`, `0.1`},
		{`"number"`, `123456789012345678901234567890`, `123456789012345678901234567890`},
		{`"number"`, `1e3`, `1000`},
		{`"bool"`, `"true"`, `true`},
		{`["list","number"]`, `[1, "2"]`, `[1,2]`},
		{`["list","string"]`, `[]`, `[]`},
		{`["set","string"]`, `["b", "a", "b"]`, `["a","b"]`},
		{`["map","bool"]`, `{ a = true, "b c" = false }`, `{"a":true,"b c":false}`},
		{`["object",{"a":"bool"}]`, `{ a = true }`, `{"a":true}`},
		{`["object",{"a":"bool","b":"string"},["b"]]`, `{ a = true }`, `{"a":true,"b":null}`},
		{`["tuple",["string","number"]]`, `[1, 2]`, `["1",2]`},
		{`"dynamic"`, `{ a = [1, "x", null] }`, `{"a":[1,"x",null]}`},
		{`"string"`, `env("X")`, `"value of X"`},
		{`"string"`, `"Bearer ${secret("s")}"`, `{"$secret":"x"}`},
		{`["map","string"]`, `{ a = secret("s"), b = "plain" }`, `{"a":{"$secret":"x[\"a\"]"},"b":"plain"}`},
		{`["list","string"]`, `[for s in ["a", "b"] : "${s}!"]`, `["a!","b!"]`},
		// errors
		{`["object",{"a":"bool"}]`, `{ a = true, b = 1 }`, `unsupported attribute|1:17`},
		{`["list",["object",{"a":"bool"}]]`, `[{ a = true }, { aa = true }]`, `unsupported attribute|1:22`},
		{`["object",{"a":"bool"}]`, `{}`, `incorrect attribute value type|1:5`},
		{`"number"`, `"x"`, `incorrect attribute value type|1:5`},
		{`["list","number"]`, `[1, "x"]`, `incorrect attribute value type|1:9`},
		{`["map",["list","number"]]`, `{ a = [1], b = [2, "y"] }`, `incorrect attribute value type|1:24`},
		{`"string"`, `env("NOPE")`, `environment variable "NOPE" is not set|1:9`},
		{`"string"`, `"a ${env("NOPE")}"`, `environment variable "NOPE" is not set|1:14`},
		{`"string"`, `nope("x")`, `call to unknown function|1:5`},
		{`"junk"`, `"x"`, `the plugin's schema is invalid|1:1`},
	} {
		b := block(t, "x = "+tt.text)
		got, _, ds := b.Decode(contract.ConfigBlock{Attributes: []contract.ConfigAttribute{attribute("x", tt.ty)}}, Use)
		text := strings.TrimSuffix(strings.TrimPrefix(string(got), `{"x":`), "}")
		if ds.HasErrors() {
			text = fmt.Sprintf("%s|%d:%d", ds[0].Summary, ds[0].Range.Start.Line, ds[0].Range.Start.Column)
		}
		if text != tt.want {
			t.Errorf("%s = %s: %s, want %s (%v)", tt.ty, tt.text, text, tt.want, ds)
		}
	}
}

// A path means the same wherever it is used: it starts in the folder of the file that it is written in.
func TestPaths(t *testing.T) {
	s := contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "p", Type: json.RawMessage(`"string"`), Path: true}}}
	for text, want := range map[string]string{
		`"x/y"`: "/there/x/y", `"./x"`: "/there/x", `"../x"`: "/x", `"/abs//x"`: "/abs/x", `"~/x"`: "/home/me/x", `""`: "", `null`: "null",
	} {
		b := block(t, "p = "+text)
		for i := range b.Fragments {
			b.Fragments[i].Scope = function.NewScope(function.Sources{Home: "/home/me"}, "/there")
		}
		got, _, ds := b.Decode(s, Use)
		if want != "null" {
			want = fmt.Sprintf("%q", want)
		}
		if string(got) != `{"p":`+want+`}` || len(ds) > 0 {
			t.Errorf("%s: %s, %v, want %s", text, got, ds, want)
		}
	}
	b := block(t, `p = "~/x"`)
	b.Fragments[0].Scope = function.NewScope(function.Sources{}, "/there")
	if _, _, ds := b.Decode(s, Use); len(ds) != 1 || !strings.Contains(ds[0].Detail, "HOME") || ds[0].Range.Start.Column != 5 {
		t.Errorf("no home: %v", ds)
	}
}

// A program that prints a secret stands for a whole value that is kept secret, and nothing runs it here.
func TestCommands(t *testing.T) {
	s := contract.ConfigBlock{Attributes: []contract.ConfigAttribute{
		{Name: "key", Type: json.RawMessage(`"string"`), Sensitive: true}, {Name: "keys", Type: json.RawMessage(`["map","string"]`), Sensitive: true},
		{Name: "pin", Type: json.RawMessage(`"number"`), Sensitive: true}, {Name: "text", Type: json.RawMessage(`"string"`)},
		{Name: "any", Type: json.RawMessage(`"dynamic"`)},
	}}
	const here = "command() is not allowed here"
	for text, want := range map[string]string{
		`key = command(["a", "b c"])`:                            `key: [a b c] in /there, 5s, 5m0s`,
		`key = command(["a"], {timeout = "1m", refresh = "0s"})`: `key: [a] in /there, 1m0s, 0s`,
		`key = command(["./a"])`:                                 `key: [/there/a] in /there, 5s, 5m0s`,
		`key = command(["~/bin/a"])`:                             `key: [/home/me/bin/a] in /there, 5s, 5m0s`,
		`key = env("NOPE", command(["a", env("X")]))`:            `key: [a value of X] in /there, 5s, 5m0s`,
		`key = "${command(["a"])}"`:                              `key: [a] in /there, 5s, 5m0s`,
		`keys = { x = command(["a"]), y = command(["b"]) }`:      `keys["x"]: [a] in /there, 5s, 5m0s; keys["y"]: [b] in /there, 5s, 5m0s`,
		`key = "Bearer ${command(["a"])}"`:                       here,
		`key = command(["a"]) == "" ? "x" : "y"`:                 here,
		`key = command(["a", secret("s")])`:                      here,
		`text = command(["a"])`:                                  here,
		`text = env("NOPE", command(["a"]))`:                     here,
		`any = [{ deep = command(["a"]) }]`:                      here,
		`pin = command(["a"])`:                                   "incorrect attribute value type",
		`key = command(["a", command(["b"])])`:                   "invalid function argument",
		`key = command([])`:                                      "invalid function argument",
		`key = command([""])`:                                    "invalid function argument",
		`key = command(["a", null])`:                             "invalid function argument",
		`key = command("a")`:                                     "invalid function argument",
		`key = command(["a"], {time = "1s"})`:                    "invalid function argument",
		`key = command(["a"], {timeout = "0s"})`:                 "invalid function argument",
		`key = command(["a"], {timeout = "11m"})`:                "invalid function argument",
		`key = command(["a"], {refresh = "-1s"})`:                "invalid function argument",
		`key = command(["a"], {refresh = 5})`:                    "invalid function argument",
		`key = command(["a"], "5s")`:                             "invalid function argument",
		`key = command(["a"], null)`:                             "invalid function argument",
		`key = command(["a"], {timeout = "1s"}, {})`:             "invalid function argument",
	} {
		b := block(t, text)
		for i := range b.Fragments {
			b.Fragments[i].Scope = function.NewScope(function.Sources{
				Home: "/home/me", Secret: func(string) (string, error) { return "s3cret", nil },
				LookupEnv: func(n string) (string, bool) { return "value of " + n, n == "X" },
			}, "/there")
		}
		_, secrets, ds := b.Decode(s, Use)
		var got []string
		for h, s := range secrets {
			c := s.Command
			if c == nil || s.Value == "" {
				t.Errorf("%s: %s is no command", text, h)
				continue
			}
			got = append(got, fmt.Sprintf("%s: %v in %s, %v, %v", h, c.Argv, c.Dir, c.Timeout, c.Refresh))
		}
		if ds.HasErrors() {
			got = []string{ds[0].Summary}
			if strings.Contains(ds[0].Summary, "function argument") {
				got = []string{"invalid function argument"}
			}
			if ds[0].Next == "" || strings.Contains(fmt.Sprint(ds), "\x00") {
				t.Errorf("%s: %v", text, ds)
			}
		}
		slices.Sort(got)
		if strings.Join(got, "; ") != want {
			t.Errorf("%s\n got %s\nwant %s (%v)", text, strings.Join(got, "; "), want, ds)
		}
	}
}

func TestSensitiveValuesAreHandles(t *testing.T) {
	s := contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{
			{Name: "key", Type: json.RawMessage(`"string"`), Sensitive: true},
			{Name: "keys", Type: json.RawMessage(`["list","string"]`), Sensitive: true},
			{Name: "pin", Type: json.RawMessage(`"number"`), Sensitive: true},
		},
		Blocks: []contract.ConfigNestedBlock{{Name: "auth", Labels: []string{"host"}, Block: contract.ConfigBlock{
			Attributes: []contract.ConfigAttribute{{Name: "token", Type: json.RawMessage(`"string"`), Sensitive: true}}}}},
	}
	got, secrets, ds := block(t, "key = \"k\"\nkeys = [\"a\", \"b\"]\npin = 1234\nauth \"x.y\" {\n token = \"t\"\n}\nauth \"z\" {\n token = null\n}\n").Decode(s, Use)
	const want = `{"auth":[{"host":"x.y","token":{"$secret":"auth[\"x.y\"].token"}},{"host":"z","token":null}],"key":{"$secret":"key"},"keys":[{"$secret":"keys[0]"},{"$secret":"keys[1]"}],"pin":{"$secret":"pin"}}`
	if string(got) != want || len(ds) > 0 {
		t.Errorf("got %s, %v, want %s", got, ds, want)
	}
	values := make(map[string]string)
	for h, s := range secrets {
		values[h] = s.Value
	}
	wantSecrets := map[string]string{`auth["x.y"].token`: "t", "key": "k", "keys[0]": "a", "keys[1]": "b", "pin": "1234"}
	if !maps.Equal(values, wantSecrets) {
		t.Errorf("secrets = %v, want %v", values, wantSecrets)
	}
	// What is wrong with a secret is told without it.
	_, _, ds = block(t, "key = [\"sk-secret\"]\npin = \"sk-secret\"\n").Decode(s, Use)
	if len(ds) != 2 {
		t.Fatalf("diagnostics = %v", ds)
	}
	if text := fmt.Sprintf("%+v %+v %+v %+v", ds[0], ds[1], *ds[0].Snippet, *ds[1].Snippet); strings.Contains(text, "sk-secret") {
		t.Errorf("a diagnostic shows the secret: %s", text)
	}
}

func TestNestedBlocks(t *testing.T) {
	n := func(name string, lo, hi int32, labels ...string) contract.ConfigNestedBlock {
		return contract.ConfigNestedBlock{Name: name, MinItems: lo, MaxItems: hi, Labels: labels,
			Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{attribute("a", `"number"`)}}}
	}
	s := contract.ConfigBlock{Blocks: []contract.ConfigNestedBlock{n("one", 0, 1), n("many", 0, 2), n("named", 0, 0, "x", "y")}}
	for _, tt := range []struct {
		name   string
		layers []string
		want   string
	}{
		{"nothing", []string{""}, `{"many":[],"named":[],"one":null}`},
		{"one merges", []string{"one {\n a = 1\n}", "one {\n}"}, `{"many":[],"named":[],"one":{"a":1}}`},
		{"many is replaced", []string{"many {\n a = 1\n}\nmany {\n a = 2\n}", "many {\n a = 3\n}", ""}, `{"many":[{"a":3}],"named":[],"one":null}`},
		{"named merges", []string{"named \"p\" \"q\" {\n a = 1\n}", "named \"p\" \"r\" {\n}\nnamed \"p\" \"q\" {\n a = 2\n}"},
			`{"many":[],"named":[{"a":2,"x":"p","y":"q"},{"a":null,"x":"p","y":"r"}],"one":null}`},
		{"one twice", []string{"one {\n}\none {\n}"}, `duplicate "one" block at 3`},
		{"named twice", []string{"named \"p\" \"q\" {\n}\nnamed \"p\" \"q\" {\n}"}, `duplicate "named" block at 3`},
		{"too many", []string{"many {\n}\nmany {\n}\nmany {\n}"}, `too many "many" blocks at 5`},
		{"labels missing", []string{"named \"p\" {\n}"}, `missing y for named at 1`},
	} {
		got, _, ds := block(t, tt.layers...).Decode(s, Use)
		text := string(got)
		if ds.HasErrors() {
			text = fmt.Sprintf("%s at %d", ds[0].Summary, ds[0].Range.Start.Line)
		}
		if text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
	_, _, ds := block(t, "").Decode(contract.ConfigBlock{Blocks: []contract.ConfigNestedBlock{n("need", 2, 0)}}, Use)
	if len(ds) != 1 || ds[0].Summary != `missing "need" block` {
		t.Errorf("diagnostics = %v, want that blocks are missing", ds)
	}
}

func TestDefaultsAndRequired(t *testing.T) {
	s := contract.ConfigBlock{Attributes: []contract.ConfigAttribute{
		{Name: "a", Type: json.RawMessage(`"number"`), Default: json.RawMessage(`7`)},
		{Name: "b", Type: json.RawMessage(`"string"`), Required: true},
	}}
	if got, _, ds := block(t, "b = \"x\"").Decode(s, Use); string(got) != `{"a":7,"b":"x"}` || len(ds) > 0 {
		t.Errorf("got %s, %v", got, ds)
	}
	// A null gives the setting of an earlier layer back.
	if got, _, ds := block(t, "a = 1\nb = \"x\"", "a = null").Decode(s, Use); string(got) != `{"a":7,"b":"x"}` || len(ds) > 0 {
		t.Errorf("got %s, %v", got, ds)
	}
	if _, _, ds := block(t, "b = \"x\"", "b = null").Decode(s, Use); len(ds) != 1 || ds[0].Summary != "missing required argument" {
		t.Errorf("diagnostics = %v, want a missing argument", ds)
	}
	// What a later layer replaces is not evaluated any more.
	if got, _, ds := block(t, "b = env(\"NOPE\")", "b = \"y\"").Decode(s, Use); string(got) != `{"a":7,"b":"y"}` || len(ds) > 0 {
		t.Errorf("got %s, %v", got, ds)
	}
	if _, _, ds := block(t, "b = env(\"NOPE\")").Decode(s, Check); len(ds) != 1 || ds.HasErrors() {
		t.Errorf("diagnostics = %v, want one warning and no missing argument", ds)
	}
}

// Layers of plain arguments are a map that is overwritten key by key; where a layer's boundary lies does not count.
func TestLayersOverlay(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	var s contract.ConfigBlock
	for _, n := range names {
		s.Attributes = append(s.Attributes, attribute(n, `"number"`))
	}
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{"a": nil, "b": nil, "c": nil, "d": nil}
		var layers []string
		var b strings.Builder
		seen := map[string]bool{}
		for i := range rapid.IntRange(0, 12).Draw(t, "settings") {
			n := rapid.SampledFrom(names).Draw(t, "name")
			if seen[n] || rapid.Bool().Draw(t, "cut") {
				layers = append(layers, b.String())
				b.Reset()
				clear(seen)
			}
			seen[n] = true
			fmt.Fprintf(&b, "%s = %d\n", n, i)
			want[n] = float64(i)
		}
		got, _, ds := block(t, append(layers, b.String())...).Decode(s, Use)
		var values map[string]any
		if err := json.Unmarshal(got, &values); err != nil || len(ds) > 0 || !maps.Equal(values, want) {
			t.Fatalf("got %s, %v, %v, want %v", got, err, ds, want)
		}
		if !slices.IsSorted(slices.Sorted(maps.Keys(values))) || len(values) != len(names) {
			t.Fatalf("keys = %v", values)
		}
	})
}

func TestSettingsOfTheCommandLine(t *testing.T) {
	s := contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{attribute("m", `["map","number"]`), attribute("o", `["object",{"a":["map","string"],"b":"bool"},["a","b"]]`), attribute("n", `"number"`), attribute("d", `"dynamic"`)},
		Blocks: []contract.ConfigNestedBlock{
			{Name: "one", MaxItems: 1, Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{attribute("x", `"number"`)}}},
			{Name: "many", Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{attribute("x", `"number"`)}}},
		},
	}
	for _, tt := range []struct{ path, value, base, want string }{
		{"n", "1", "", `"n":1`},
		{"m.a", "1", "", `"m":{"a":1}`},
		{"m.b", "2", "m = { a = 1 }", `"m":{"a":1,"b":2}`},
		{"m.a", "2", "m = { a = 1 }", `"m":{"a":2}`},
		{"o.a.k", `"v"`, "o = { b = true }", `"o":{"a":{"k":"v"},"b":true}`},
		{"d.x.y", `1`, "", `"d":{"x":{"y":1}}`},
		{"one.x", "3", "", `"one":{"x":3}`},
		{"n.a", "1", "", `unsupported argument`},
		{"o.c", "1", "", `unsupported argument`},
		{"one", "1", "", `incomplete setting`},
		{"many.x", "1", "", `setting of a repeated block`},
		{"nn", "1", "", `unsupported argument`},
		{"m.a", `"x"`, "", `incorrect attribute value type`},
	} {
		b := block(t, tt.base)
		expr, hds := hclsyntax.ParseExpression([]byte(tt.value), diag.SetFile+tt.path, hcl.InitialPos)
		if hds.HasErrors() {
			t.Fatal(hds)
		}
		b.Fragments = append(b.Fragments, Fragment{Path: strings.Split(tt.path, "."), Expr: expr, Scope: b.Fragments[0].Scope, Header: expr.Range()})
		got, _, ds := b.Decode(s, Use)
		text := string(got)
		if ds.HasErrors() {
			text = ds[0].Summary
		}
		if !strings.Contains(text, tt.want) {
			t.Errorf("%s=%s on %q: %s, want %s (%v)", tt.path, tt.value, tt.base, text, tt.want, ds)
		}
	}
}

func TestLabelled(t *testing.T) {
	b := block(t, "server \"a\" {\n}\nserver \"b\" {\n}\ntool \"x\" \"b\" {\n}\n", "\nserver \"a\" {\n  more = 1\n}\n")
	for label, want := range map[string]string{"a": "1.hcl:2", "b": "0.hcl:3", "x": "", "c": ""} {
		r, ok := b.Labelled(label)
		if ok != (want != "") || ok && r.String() != want {
			t.Errorf("%s: %v, %v; want %q", label, r, ok, want)
		}
	}
}

// A value that is missing is an error where it is used, if it belongs to one of several blocks with labels.
func TestMissingSecretOfALabelledBlock(t *testing.T) {
	sensitive := func(name, ty string) contract.ConfigAttribute {
		a := attribute(name, ty)
		a.Sensitive = true
		return a
	}
	of := func(labels ...string) contract.ConfigBlock {
		return contract.ConfigBlock{Blocks: []contract.ConfigNestedBlock{{Name: "s", Labels: labels, Block: contract.ConfigBlock{
			Attributes: []contract.ConfigAttribute{sensitive("key", `"string"`), sensitive("map", `["map","string"]`), attribute("text", `"string"`)},
			Blocks:     []contract.ConfigNestedBlock{{Name: "in", MaxItems: 1, Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{sensitive("key", `"string"`)}}}},
		}}}}
	}
	text := `s "a" {
  key = "x ${env("NOPE")}"
  map = {
    A = env("A")
    B = env("NOPE")
  }
  in { key = env("NOPE") }
}
s "b" { key = env("B") }`
	data, secrets, ds := block(t, text).Decode(of("name"), Use)
	if len(ds) > 0 || !strings.Contains(string(data), `"B":{"$secret":"s[\"a\"].map[\"B\"]"}`) {
		t.Fatalf("%v %s", ds, data)
	}
	for handle, want := range map[string]string{`s["a"].key`: "0.hcl:2", `s["a"].map["B"]`: "0.hcl:5", `s["a"].in.key`: "0.hcl:7", `s["a"].map["A"]`: "", `s["b"].key`: ""} {
		s, ok := secrets[handle]
		if want == "" && ok && s.Err == nil && strings.HasPrefix(s.Value, "value of ") {
			continue
		}
		if want == "" || s.Err == nil || !strings.HasPrefix(s.Err.Error(), want+`: environment variable "NOPE" is not set`) || !strings.Contains(s.Err.Error(), "set NOPE where gantry is started") {
			t.Errorf("%s: %v, want %q", handle, s.Err, want)
		}
	}
	for _, tt := range []struct {
		labels []string
		text   string
	}{
		{nil, `s { key = env("NOPE") }`},                                           // it is not one of several
		{[]string{"name"}, `s "a" { text = env("NOPE") }`},                         // the plugin gets the text at once
		{[]string{"name"}, `s "a" { map = env("NOPE") == "" ? { A = "x" } : {} }`}, // what it would be is not known
		{[]string{"name"}, `s "a" { key = env("NOPE") == "" ? null : "x" }`},       // whether it is set is not known
		{[]string{"name"}, `s "a" { key = command(["print", env("NOPE")]) }`},      // which program it is is not known
	} {
		if _, _, ds := block(t, tt.text).Decode(of(tt.labels...), Use); !ds.HasErrors() || !strings.Contains(fmt.Sprint(ds), `"NOPE" is not set`) {
			t.Errorf("%s: %v", tt.text, ds)
		}
	}
}
