package configblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

type base struct {
	Verbose bool `json:"verbose"`
}

type server struct {
	Name    string                        `label:"name"`
	Command []string                      `json:"command" required:"true"`
	Env     map[string]configblock.Secret `json:"env"`
	Retry   struct {
		Times int `json:"times" default:"3"`
	} `json:"retry"`
}

type everything struct {
	base
	Units   string             `json:"units" doc:"Units of reports." default:"metric" enum:"metric,imperial"`
	Days    int8               `json:"days" default:"3"`
	Port    uint16             `json:"port"`
	Factor  float64            `json:"factor" default:"1.5"`
	Timeout time.Duration      `json:"timeout" default:"30s"`
	Address netip.Addr         `json:"address" default:"127.0.0.1"`
	Key     configblock.Secret `json:"key" required:"true" sensitive:"true"`
	Old     string             `json:"old" deprecated:"Use units."`
	Maybe   *int               `json:"maybe"`
	Tags    []string           `json:"tags" default:"[\"a\",\"b\"]"`
	Table   map[string]limit   `json:"table"`
	Any     any                `json:"any"`
	Raw     json.RawMessage    `json:"raw"`
	BaseURL string             // base_url
	Proxy   *proxy             `json:"proxy" doc:"How to get out."`
	Servers []server           `json:"server"`
	Ignored chan int           `json:"-"`
	hidden  int
}

type limit struct {
	Max int    `json:"max" required:"true"`
	Why string `json:"why"`
}

type proxy struct {
	URL string `json:"url" required:"true" endpoint:"true"`
}

func TestSchema(t *testing.T) {
	got, err := configblock.Schema(&everything{})
	if err != nil {
		t.Fatal(err)
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	want := contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{
			{Name: "verbose", Type: raw(`"bool"`)},
			{Name: "units", Type: raw(`"string"`), Description: "Units of reports.", Default: raw(`"metric"`), Allowed: []string{"metric", "imperial"}},
			{Name: "days", Type: raw(`"number"`), Default: raw(`3`)},
			{Name: "port", Type: raw(`"number"`)},
			{Name: "factor", Type: raw(`"number"`), Default: raw(`1.5`)},
			{Name: "timeout", Type: raw(`"string"`), Default: raw(`"30s"`)},
			{Name: "address", Type: raw(`"string"`), Default: raw(`"127.0.0.1"`)},
			{Name: "key", Type: raw(`"string"`), Required: true, Sensitive: true},
			{Name: "old", Type: raw(`"string"`), Deprecated: "Use units."},
			{Name: "maybe", Type: raw(`"number"`)},
			{Name: "tags", Type: raw(`["list","string"]`), Default: raw(`["a","b"]`)},
			{Name: "table", Type: raw(`["map",["object",{"max":"number","why":"string"},["why"]]]`)},
			{Name: "any", Type: raw(`"dynamic"`)},
			{Name: "raw", Type: raw(`"dynamic"`)},
			{Name: "base_url", Type: raw(`"string"`)},
		},
		Blocks: []contract.ConfigNestedBlock{
			{Name: "proxy", MaxItems: 1, Block: contract.ConfigBlock{
				Description: "How to get out.",
				Attributes:  []contract.ConfigAttribute{{Name: "url", Type: raw(`"string"`), Required: true, Endpoint: true}},
			}},
			{Name: "server", Labels: []string{"name"}, Block: contract.ConfigBlock{
				Attributes: []contract.ConfigAttribute{
					{Name: "command", Type: raw(`["list","string"]`), Required: true},
					{Name: "env", Type: raw(`["map","string"]`), Sensitive: true},
				},
				Blocks: []contract.ConfigNestedBlock{{Name: "retry", MaxItems: 1, Block: contract.ConfigBlock{
					Attributes: []contract.ConfigAttribute{{Name: "times", Type: raw(`"number"`), Default: raw(`3`)}},
				}}},
			}},
		},
	}
	a, _ := json.MarshalIndent(got, "", " ")
	b, _ := json.MarshalIndent(want, "", " ")
	if string(a) != string(b) {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
	m := contract.Manifest{Name: "test", Version: "1.0.0", Kind: contract.KindTool, ContractVersions: []uint32{1}, Config: got}
	if err := m.Validate(); err != nil {
		t.Errorf("the contract does not take it: %v", err)
	}
	if empty, err := configblock.Schema(nil); err != nil || !reflect.DeepEqual(empty, contract.ConfigBlock{}) {
		t.Errorf("schema of nothing: %+v, %v", empty, err)
	}
}

type loop struct {
	Next []loop `json:"next"`
}

type objectLoop struct {
	Next map[string]objectLoop `json:"next"`
}

func TestWrongStructs(t *testing.T) {
	for name, tc := range map[string]struct {
		ptr  any
		want string
	}{
		"no pointer":       {everything{}, "pointer to a struct"},
		"nil":              {(*everything)(nil), "nil"},
		"pointer to a map": {&map[string]int{}, "pointer to a struct"},
		"name": {&struct {
			A int `json:"Bad-Name"`
		}{}, "lower-case"},
		"twice": {&struct {
			A int `json:"b"`
			B int
		}{}, `two fields are named "b"`},
		"loop":            {&loop{}, "contains itself"},
		"loop of objects": {&objectLoop{}, "contains itself"},
		"channel":         {&struct{ A chan int }{}, "can't be configured"},
		"map key":         {&struct{ A map[int]string }{}, "string keys"},
		"default, wrong": {&struct {
			A int `default:"x"`
		}{}, "not valid JSON"},
		"default, type": {&struct {
			A int `default:"\"x\""`
		}{}, "want a number"},
		"default, range": {&struct {
			A uint8 `default:"300"`
		}{}, "out of range"},
		"default, enum": {&struct {
			A string `default:"c" enum:"a,b"`
		}{}, "not allowed"},
		"default, duration": {&struct {
			A time.Duration `default:"3 days"`
		}{}, "not a duration"},
		"endpoint, default": {&struct {
			A string `endpoint:"true" default:"https://x.example"`
		}{}, "an endpoint"},
		"endpoint, nested": {&struct {
			A struct{ B string } `endpoint:"true"`
		}{}, "path or endpoint"},
		"default, required": {&struct {
			A int `default:"1" required:"true"`
		}{}, "mutually exclusive"},
		"default of secret": {&struct {
			A configblock.Secret `default:"x"`
		}{}, "can't have a default"},
		"enum of a number": {&struct {
			A int `enum:"1,2"`
		}{}, "only a string can have enum"},
		"sensitive string": {&struct {
			A string `sensitive:"true"`
		}{}, "configblock.Secret"},
		"label at the top": {&struct {
			A string `label:""`
		}{}, "label"},
		"label is a number": {&struct {
			B []struct {
				A int `label:""`
			}
		}{}, "label must be a string"},
		"default of a block": {&struct {
			B struct{ A int } `default:"{}"`
		}{}, "nested block"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := configblock.Schema(tc.ptr); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("schema: %v, want %q", err, tc.want)
			}
			if ds := configblock.Decode([]byte("{}"), tc.ptr); len(ds) != 1 || ds[0].Summary != "invalid configuration type in the plugin" {
				t.Errorf("decode: %v", ds)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	c := everything{hidden: 7, Port: 99, Old: "old"}
	ds := configblock.Decode([]byte(`{
		"verbose": true, "units": "imperial", "days": 5.0, "port": null, "factor": 2, "timeout": "1m", "address": "::1",
		"key": {"$secret": "h"}, "maybe": 0, "tags": [], "table": {"x": {"max": 1}}, "any": {"a": [1]}, "raw": [1, 2],
		"proxy": {"url": "http://p"},
		"server": [{"name": "one", "command": ["a", "b"], "env": {"K": "v"}, "retry": {"times": 9}}, {"name": "two", "command": []}]
	}`), &c)
	if len(ds) > 0 {
		t.Fatalf("diagnostics %v", ds)
	}
	if !c.Verbose || c.Units != "imperial" || c.Days != 5 || c.Port != 0 || c.Factor != 2 || c.Timeout != time.Minute || c.Address.String() != "::1" ||
		c.Key.IsZero() || c.Maybe == nil || *c.Maybe != 0 || c.Tags == nil || len(c.Tags) != 0 || c.Table["x"].Max != 1 || string(c.Raw) != "[1, 2]" ||
		fmt.Sprint(c.Any) != "map[a:[1]]" || c.Proxy.URL != "http://p" || c.Old != "" || c.hidden != 7 {
		t.Errorf("decoded %+v", c)
	}
	if s := c.Servers; len(s) != 2 || s[0].Name != "one" || s[0].Command[1] != "b" || s[0].Retry.Times != 9 || s[1].Name != "two" || s[1].Retry.Times != 3 {
		t.Errorf("servers %+v", c.Servers)
	}
	if v, err := c.Servers[0].Env["K"].Value(t.Context()); v != "v" || err != nil {
		t.Errorf("env %q, %v", v, err)
	}

	// Everything that is absent has its default again.
	if ds := configblock.Decode([]byte(`{"key":"k"}`), &c); len(ds) > 0 {
		t.Fatalf("diagnostics %v", ds)
	}
	if c.Units != "metric" || c.Days != 3 || c.Timeout != 30*time.Second || len(c.Tags) != 2 || c.Maybe != nil || c.Proxy != nil || c.Servers != nil || c.Any != nil || c.hidden != 7 {
		t.Errorf("decoded %+v", c)
	}
}

func TestDiagnostics(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`{}`, `error at : "key" is missing`},
		{``, `error at : "key" is missing`},
		{`{"key":"k","unit":"metric"}`, `error at unit: unknown name "unit"; Did you mean "units"?`},
		{`{"key":"k","xyzzy":1}`, `error at xyzzy: unknown name "xyzzy"`},
		{`{"key":"k","units":"metrc"}`, `error at units: "metrc" is not allowed for "units"; Did you mean "metric"? Use one of "metric", "imperial".`},
		{`{"key":"k","units":5}`, `error at units: want a string, got a number`},
		{`{"key":"k","units":{"$secret":"h"}}`, `error at units: want a string, got a secret`},
		{`{"key":5}`, `error at key: want a string, got a number`},
		{`{"key":{"secret":"h"}}`, `error at key: want a string, got an object`},
		{`{"key":"k","days":"3"}`, `error at days: want a number, got a string`},
		{`{"key":"k","days":1.5}`, `error at days: want a whole number, got 1.5`},
		{`{"key":"k","days":128}`, `error at days: 128 is out of range`},
		{`{"key":"k","days":1e99999999}`, `error at days: want a whole number, got 1e99999999`},
		{`{"key":"k","port":-1}`, `error at port: want a non-negative number, got -1`},
		{`{"key":"k","factor":1e999}`, `error at factor: 1e999 is too large`},
		{`{"key":"k","verbose":"yes"}`, `error at verbose: want true or false, got a string`},
		{`{"key":"k","timeout":"3 days"}`, `error at timeout: "3 days" is not a duration; Write a number with a unit, for example "30s" or "5m".`},
		{`{"key":"k","address":"here"}`, `error at address: "here" is not valid: ParseAddr("here"): unable to parse IP`},
		{`{"key":"k","tags":["a",2]}`, `error at tags[1]: want a string, got a number`},
		{`{"key":"k","tags":[null]}`, `error at tags[0]: want a string, got null`},
		{`{"key":"k","tags":"a"}`, `error at tags: want a list, got a string`},
		{`{"key":"k","table":{"x":{"max":true}}}`, `error at table{x}.max: want a number, got a bool`},
		{`{"key":"k","table":{"x":{}}}`, `error at table{x}: "max" is missing`},
		{`{"key":"k","table":[]}`, `error at table: want a map, got a list`},
		{`{"key":"k","proxy":{}}`, `error at proxy: "url" is missing`},
		{`{"key":"k","proxy":[]}`, `error at proxy: want a block, got a list`},
		{`{"key":"k","server":{}}`, `error at server: want a list of blocks, got an object`},
		{`{"key":"k","server":[{"command":[]},{"command":[],"retry":{"times":"x"}}]}`, `error at server[1].retry.times: want a number, got a string`},
		{`{"key":"k","old":"x"}`, `warning at old: "old" is deprecated; Use units.`},
		{`[]`, `error at : want a block, got a list`},
		{`{"key"`, `error at : want a block, got invalid JSON`},
		{`{"key":"k","days":"a","port":"b"}`, `error at days: want a number, got a string | error at port: want a number, got a string`},
	} {
		c := everything{Units: "before"}
		ds := configblock.Decode([]byte(tc.in), &c)
		var got []string
		for _, d := range ds {
			s := map[contract.Severity]string{contract.SeverityError: "error", contract.SeverityWarning: "warning"}[d.Severity] + " at " + pathText(d.Path) + ": " + d.Summary
			if d.Next != "" {
				s += "; " + d.Next
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " | "); s != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.in, s, tc.want)
		}
		if failed := strings.Contains(tc.want, "error"); failed != (c.Units == "before") {
			t.Errorf("%s: units are %q", tc.in, c.Units)
		}
	}
	if ds := configblock.Decode([]byte(`{"a":1}`), nil); len(ds) != 1 {
		t.Errorf("a block for a plugin without one: %v", ds)
	}
	if ds := configblock.Decode([]byte(`{}`), nil); len(ds) != 0 {
		t.Errorf("an empty block for a plugin without one: %v", ds)
	}
}

func pathText(p []contract.Step) string {
	var b strings.Builder
	for i, s := range p {
		switch s.Kind {
		case contract.StepName:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Name)
		case contract.StepKey:
			b.WriteString("{" + s.Key + "}")
		case contract.StepIndex:
			fmt.Fprintf(&b, "[%d]", s.Index)
		}
	}
	return b.String()
}

func TestRequiredBlocks(t *testing.T) {
	type config struct {
		One  struct{ A int }   `json:"one" required:"true"`
		Many []struct{ A int } `json:"many" required:"true"`
	}
	b, err := configblock.Schema(&config{})
	if err != nil || b.Blocks[0].MinItems != 1 || b.Blocks[0].MaxItems != 1 || b.Blocks[1].MinItems != 1 || b.Blocks[1].MaxItems != 0 {
		t.Errorf("schema %+v, %v", b, err)
	}
	if ds := configblock.Decode([]byte(`{"many":[]}`), &config{}); len(ds) != 2 || ds[0].Summary != `block "one" is missing` || ds[1].Summary != `block "many" is missing` {
		t.Errorf("diagnostics %v", ds)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	c := everything{Key: configblock.NewSecret("hunter2")}
	b, err := json.Marshal(map[string]any{"c": c.Key})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := c.Key.MarshalText()
	for _, s := range []string{
		fmt.Sprint(c.Key), fmt.Sprintf("%v %+v %#v %s %q %x %d", c.Key, c.Key, c.Key, c.Key, c.Key, c.Key, c.Key), fmt.Sprintf("%+v %#v", c, &c),
		c.Key.String(), c.Key.GoString(), string(b), string(text), fmt.Sprintf("%v", struct{ s configblock.Secret }{c.Key}),
	} {
		if strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("printed: %s", s)
		}
	}
	if v, err := c.Key.Value(t.Context()); v != "hunter2" || err != nil {
		t.Errorf("value %q, %v", v, err)
	}
}

func TestSecretIsResolved(t *testing.T) {
	var c everything
	if ds := configblock.Decode([]byte(`{"key":{"$secret":"h"},"server":[{"command":[],"env":{"K":{"$secret":"env"}}}]}`), &c); len(ds) > 0 {
		t.Fatal(ds)
	}
	if _, err := c.Key.Value(t.Context()); err == nil {
		t.Error("a value before there is a way to it")
	}
	refused := errors.New("refused")
	configblock.Bind(&c, func(_ context.Context, handle string, renew bool) (string, error) {
		if renew {
			handle += ", anew"
		}
		if handle == "env" {
			return "", refused
		}
		return "value of " + handle, nil
	})
	if v, err := c.Key.Value(t.Context()); v != "value of h" || err != nil {
		t.Errorf("value %q, %v", v, err)
	}
	if v, err := c.Key.Renew(t.Context()); v != "value of h, anew" || err != nil {
		t.Errorf("renewed %q, %v", v, err)
	}
	if v, err := configblock.NewSecret("fixed").Renew(t.Context()); v != "fixed" || err != nil {
		t.Errorf("renewed %q, %v", v, err)
	}
	if _, err := c.Servers[0].Env["K"].Value(t.Context()); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	var none configblock.Secret
	for _, ask := range []func(context.Context) (string, error){none.Value, none.Renew} {
		if _, err := ask(t.Context()); !errors.Is(err, configblock.ErrNotConfigured) || !none.IsZero() {
			t.Errorf("error %v", err)
		}
	}
	configblock.Bind(nil, nil)
}

func TestDiagnosticsOfErrors(t *testing.T) {
	err := errors.Join(
		configblock.Invalid("first", contract.Name("a"), contract.Index(2)),
		fmt.Errorf("wrapped: %w", &contract.Diagnostic{Severity: contract.SeverityWarning, Summary: "second"}),
		errors.New("third"),
	)
	ds := configblock.Diagnostics(err)
	if len(ds) != 3 || pathText(ds[0].Path) != "a[2]" || ds[1].Severity != contract.SeverityWarning || ds[2].Summary != "third" || ds[2].Severity != contract.SeverityError {
		t.Errorf("diagnostics %+v", ds)
	}
	if ds := configblock.Diagnostics(nil); ds != nil {
		t.Errorf("diagnostics %v", ds)
	}
	d := &contract.Diagnostic{Summary: "s", Detail: "d."}
	if d.Error() != "s: d." {
		t.Errorf("error %q", d.Error())
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"key":"k","days":1e3,"table":{"x":{"max":1}},"server":[{"command":["a"],"retry":{}}]}`))
	f.Add([]byte(`{"key":{"$secret":"h"},"proxy":null,"any":[[[]]],"raw":0}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		// Whatever comes: no panic, and a struct that was filled is valid.
		c := everything{Units: "before"}
		failed := false
		for _, d := range configblock.Decode(in, &c) {
			failed = failed || d.Severity == contract.SeverityError
			if d.Summary == "" {
				t.Errorf("diagnostic without a summary: %+v", d)
			}
		}
		if failed != (c.Units == "before") || !failed && c.Key.IsZero() {
			t.Errorf("failed %v, decoded %+v", failed, c)
		}
	})
}

type helper struct {
	Name string `label:"name"`
	configblock.Process
	URL string `json:"url"`
}

// The host describes and reads what it starts for a block, and the plugin gets that in its struct.
func TestProcess(t *testing.T) {
	var c struct {
		Server []helper `json:"server"`
	}
	s, err := configblock.Schema(&c)
	if err != nil {
		t.Fatal(err)
	}
	b := s.Blocks[0]
	if !b.Process || len(b.Labels) != 1 || len(b.Block.Attributes) != 1 || b.Block.Attributes[0].Name != "url" {
		t.Errorf("schema: %+v", b)
	}
	const block = `{"server":[{"name":"a","url":null,"command":"npx","args":["-y","x"],"env":["B","C"],"cwd":"/w"},
		{"name":"b","url":"https://x.test","command":null,"args":null,"env":null,"cwd":null}]}`
	if ds := configblock.Decode([]byte(block), &c); len(ds) > 0 {
		t.Fatal(ds)
	}
	want := []helper{
		{Name: "a", Process: configblock.Process{Command: "npx", Args: []string{"-y", "x"}, Env: []string{"B", "C"}, Cwd: "/w"}},
		{Name: "b", URL: "https://x.test"},
	}
	if !reflect.DeepEqual(c.Server, want) {
		t.Errorf("decoded: %+v, want %+v", c.Server, want)
	}
	if ds := configblock.Decode([]byte(`{"server":[{"name":"a","sandbox":{}}]}`), &c); len(ds) != 1 {
		t.Errorf("what the host reads alone: %v", ds)
	}
	if _, err := configblock.Schema(&struct{ configblock.Process }{}); err == nil {
		t.Error("the config block itself declares a process")
	}
}
