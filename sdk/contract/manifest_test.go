package contract

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func sample() *Manifest {
	return &Manifest{
		Name: "weather", Version: "1.2.3-rc.1+build.5", Kind: KindTool, ContractVersions: []uint32{1, 2},
		Description: "Tells the weather <of> a place.",
		Config: ConfigBlock{
			Attributes: []ConfigAttribute{
				{Name: "units", Type: json.RawMessage(` "string" `), Default: json.RawMessage(`"metric"`), Allowed: []string{"metric", "imperial"}},
				{Name: "key", Type: json.RawMessage(`"string"`), Sensitive: true, Required: true},
				{Name: "limits", Type: json.RawMessage(`["object",{"b":"number","a":["list","bool"]},["b"]]`), Default: json.RawMessage(`{"a":[true]}`)},
			},
			Blocks: []ConfigNestedBlock{{
				Name: "place", MaxItems: 3, Labels: []string{"name"},
				Block: ConfigBlock{Attributes: []ConfigAttribute{{Name: "lat", Type: json.RawMessage(`"number"`), Required: true}}},
			}},
		},
		Capabilities: []string{"network"}, HostServices: []string{"Secret"}, Limits: Limits{CallMS: 5000},
		Instructions: "Ask for a place.",
		Commands:     []CommandSpec{{Name: "log-in", InputSchema: json.RawMessage(`{"type":"object"}`), SideEffects: true}},
		Handover:     true,
		Tools: []Descriptor{
			{
				Name: "forecast", Namespace: "weather", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","default":1.0}}}`),
				Effects: []Effect{NetworkEffect{Host: "api.example.com", Port: 443}, OtherEffect{Label: "asks"},
					ServiceEffect{Service: "github", Action: "create_issue", ReadOnly: new(false), OpenWorld: new(true), Approval: "writes"}},
				Exposure: ExposureDeferred, HookFields: map[string]string{"z": "1", "a": "2"},
			},
			{Name: "note", Freeform: &Freeform{Property: "text"}, OutputSchema: json.RawMessage(`{"type":"string"}`)},
		},
	}
}

func TestCanonical(t *testing.T) {
	m := &Manifest{
		Name: "n", Version: "1.0.0", Kind: KindProvider, ContractVersions: []uint32{1}, Description: "<&>",
		Config: ConfigBlock{Attributes: []ConfigAttribute{{
			Name: "a", Type: json.RawMessage("\n[ \"list\" , \"number\" ] "), Default: json.RawMessage(`[1.0, 1e3, 12345678901234567890]`),
		}}},
		Tools: []Descriptor{{Name: "t", InputSchema: json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`),
			Effects: []Effect{ExecEffect{Argv: []string{"ls"}}, nil}}},
	}
	want := `{"config":{"attributes":[{"default":[1.0,1e3,12345678901234567890],"name":"a","type":["list","number"]}]},` +
		`"contractVersions":[1],"description":"<&>","kind":"provider","name":"n",` +
		`"tools":[{"effects":[{"argv":["ls"],"type":"exec"},{"label":"unknown effect","type":"other"}],` +
		`"inputSchema":{"properties":{"a":{},"b":{}},"type":"object"},"name":"t"}],"version":"1.0.0"}`
	if got := string(m.Canonical()); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestCanonicalReadsBack(t *testing.T) {
	m := sample()
	b := m.Canonical()
	got, err := ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	if again := got.Canonical(); string(again) != string(b) {
		t.Errorf("got\n%s, want\n%s", again, b)
	}
	// Only the white space inside the pieces of JSON is gone.
	m.Config.Attributes[0].Type = json.RawMessage(`"string"`)
	m.Config.Attributes[2].Type = json.RawMessage(`["object",{"a":["list","bool"],"b":"number"},["b"]]`)
	m.Tools[0].InputSchema = json.RawMessage(`{"properties":{"n":{"default":1.0,"type":"integer"}},"type":"object"}`)
	if !reflect.DeepEqual(got, m) {
		t.Errorf("got\n%+v, want\n%+v", got, m)
	}
}

func TestCanonicalFormOfEmptyLists(t *testing.T) {
	a := &Manifest{Name: "n", Tools: []Descriptor{{Name: "t", Effects: []Effect{WriteEffect{}}}}}
	b := &Manifest{
		Name: "n", Capabilities: []string{}, Config: ConfigBlock{Attributes: []ConfigAttribute{}, Blocks: []ConfigNestedBlock{}},
		Tools: []Descriptor{{Name: "t", HookFields: map[string]string{}, InputSchema: json.RawMessage{}, Effects: []Effect{WriteEffect{Paths: []string{}}}}},
	}
	if a.Digest() != b.Digest() {
		t.Errorf("%s\nand\n%s have different digests", a.Canonical(), b.Canonical())
	}
}

func TestDigest(t *testing.T) {
	if got, want := (&Manifest{Name: "n"}).Digest(), "m1:1rHx6Rwb+nzj/jXbj0goxSI2n1hWYH/7EVgFVr1gOK8="; got != want {
		t.Errorf("digest of %s = %s, want %s", (&Manifest{Name: "n"}).Canonical(), got, want)
	}
	seen := map[string]bool{sample().Digest(): true}
	for name, change := range map[string]func(*Manifest){
		"version":    func(m *Manifest) { m.Version = "1.2.4" },
		"capability": func(m *Manifest) { m.Capabilities = append(m.Capabilities, "spawn") },
		"effect":     func(m *Manifest) { m.Tools[0].Effects[0] = NetworkEffect{Host: "other.example.com", Port: 443} },
		"freeform":   func(m *Manifest) { m.Tools[0].Freeform = &Freeform{} },
		"bad schema": func(m *Manifest) { m.Tools[0].InputSchema = json.RawMessage(`{"type":`) },
		"other bad":  func(m *Manifest) { m.Tools[0].InputSchema = json.RawMessage(`{"type";`) },
		"order":      func(m *Manifest) { m.ContractVersions = []uint32{2, 1} },
	} {
		m := sample()
		change(m)
		if seen[m.Digest()] {
			t.Errorf("changing %s gives a digest that was there before", name)
		}
		seen[m.Digest()] = true
	}
}

func TestParseNewerManifest(t *testing.T) {
	m, err := ParseManifest([]byte(`{"name":"n","kind":"storage","hologram":true,
		"tools":[{"name":"t","exposure":"shouted","effects":[{"type":"teleport","to":"x"}],"hologram":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{Name: "n", Tools: []Descriptor{{Name: "t", Effects: []Effect{OtherEffect{Label: UnknownEffect}}}}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v", m)
	}
}

func TestParseManifestRefuses(t *testing.T) {
	for _, s := range []string{"", "null", "[]", "7", `{"name":`, `{"name":1}`, `{} {}`, `{"limits":{"callMs":"x"}}`,
		`{"tools":[{"effects":[7]}]}`, strings.Repeat("[", 20000)} {
		if m, err := ParseManifest([]byte(s)); err == nil {
			t.Errorf("accepted %.40q as %+v", s, m)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add(string(sample().Canonical()))
	f.Add(`{"name":"n","config":{"attributes":[{"name":"a","type":["tuple",["string"]],"default":[1]}]}}`)
	f.Add(`{"tools":[{"effects":[{"type":"exec"}],"inputSchema":null,"freeform":{}}],"kind":"tool"}`)
	f.Add(`{"config":{"blocks":[{"name":"b","block":{"blocks":[{"name":"c","labels":["c","c"]}]}}]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseManifest([]byte(s))
		if err != nil {
			return
		}
		_ = m.Validate() // must not panic
		c := m.Canonical()
		again, err := ParseManifest(c)
		if err != nil {
			t.Fatalf("%q is written as %q, which can't be read: %v", s, c, err)
		}
		if got := again.Canonical(); string(got) != string(c) {
			t.Fatalf("%q\nis written again as\n%q", c, got)
		}
	})
}
