//go:build unix

package plugintest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func sampleReport() *Report {
	return &Report{
		Path: "./weather", Name: "weather", Version: "1.0.0", Kind: "tool",
		Checks: []Result{
			{ID: "cookie", Why: "Started by hand it explains itself.", Status: Pass, Seen: "exit status 1", TookMS: 3},
			{
				ID: "call.cancel", Why: "A cancelled call still answers.", Status: Fail, Seen: "no result\nwithin 2s", Next: "let the handler return",
				TookMS: 2001,
			},
			{ID: "drain.finishes", Why: "Drain lets what runs finish.", Status: Skip, Seen: "needs call.cancel"},
		},
		Figures:    Figures{StartMS: 6, FirstCallMS: 11, IdleRSSBytes: 15 << 20, Restarts: 50, DurationMS: 3100},
		NotChecked: []Unseen{{"refuses other users", "needs a second user"}},
	}
}

func TestReportAsText(t *testing.T) {
	const want = `./weather: weather 1.0.0, a tool plugin

pass  cookie                 exit status 1
fail  call.cancel            no result
                             within 2s
                             rule: A cancelled call still answers.
                             next: let the handler return
skip  drain.finishes         needs call.cancel

Not checked:
  refuses other users: needs a second user

handshake after 6 ms, first response after 11 ms, 15.0 MiB when idle, 50 restarts, 3.1 s in total
does not conform: 1 passed, 1 failed, 1 skipped
`
	var b strings.Builder
	if err := sampleReport().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestReportAsJSON(t *testing.T) {
	const want = `{"path":"./weather","name":"weather","version":"1.0.0","kind":"tool","checks":[` +
		`{"id":"cookie","why":"Started by hand it explains itself.","status":"pass","seen":"exit status 1","tookMs":3},` +
		`{"id":"call.cancel","why":"A cancelled call still answers.","status":"fail","seen":"no result\nwithin 2s","next":"let the handler return","tookMs":2001},` +
		`{"id":"drain.finishes","why":"Drain lets what runs finish.","status":"skip","seen":"needs call.cancel","tookMs":0}],` +
		`"figures":{"startMs":6,"firstCallMs":11,"idleRssBytes":15728640,"restarts":50,"durationMs":3100},` +
		`"notChecked":[{"rule":"refuses other users","why":"needs a second user"}]}`
	b, err := json.Marshal(sampleReport())
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestRunReportsInvalidConfig(t *testing.T) {
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"no binary":         {Config{}, "no binary"},
		"not an object":     {Config{Path: "x", Config: []byte(`[]`)}, "JSON object"},
		"null":              {Config{Path: "x", Config: []byte(`null`)}, "JSON object"},
		"unknown behaviour": {Config{Path: "x", Calls: []Call{{Tool: "t", Does: "dances"}}}, `"dances"`},
		"no tool":           {Config{Path: "x", Calls: []Call{{}}}, "without a tool"},
		"both":              {Config{Path: "x", Calls: []Call{{Tool: "t", Text: "x", Arguments: []byte("{}")}}}, "both text and arguments"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := Run(t.Context(), tt.cfg)
			if r.OK() || !strings.Contains(r.Problem, tt.want) {
				t.Errorf("problem = %q, want %q in it", r.Problem, tt.want)
			}
		})
	}
}

func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plugintest.json")
	if err := os.WriteFile(file, []byte(`{"path":"bin/x","config":{"a":1},"calls":[{"tool":"t","does":"waits"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Path != filepath.Join(dir, "bin", "x") || string(cfg.Config) != `{"a":1}` || len(cfg.Calls) != 1 || cfg.Calls[0].Does != Waits {
		t.Errorf("read %+v", cfg)
	}
	if _, err := ReadConfig(filepath.Join(dir, "missing")); err == nil {
		t.Error("no error for a missing file")
	}
	if err := os.WriteFile(file, []byte(`{"path":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("broken JSON: %v", err)
	}
}

func TestInputsOfCommands(t *testing.T) {
	tests := map[string]struct {
		schema string
		want   []string
	}{
		"nothing":  {``, []string{`{}`}},
		"optional": {`{"type":"object","properties":{"a":{"type":"string"}}}`, []string{`{}`}},
		"required": {
			`{"type":"object","required":["a","b","c","d","e","f","g"],"properties":{"a":{"type":"string"},"b":{"type":["null","array"]},"c":{"type":"object"},
			"d":{"type":"integer"},"e":{"type":"boolean"},"f":{"enum":["x","y"]}}}`,
			[]string{`{}`, `{"a":"kit","b":[],"c":{},"d":1,"e":false,"f":"x","g":"kit"}`},
		},
		"no schema": {`[]`, []string{`{}`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, in := range commandInputs([]byte(tt.schema)) {
				got = append(got, string(in))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
