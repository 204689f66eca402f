package diag

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

var update = flag.Bool("update", false, "write the golden files anew")

// one of each kind of place.
func samples() Diagnostics {
	files := Files{"gantry.hcl": []byte("a = 1\n\n  plugin \"weather\" {\n    api_key = \"sk-1\"\n}\n" + strings.Repeat("x", 300) + "\n")}
	at := func(line, from, to, offset int) hcl.Range {
		return hcl.Range{Filename: "gantry.hcl", Start: hcl.Pos{Line: line, Column: from, Byte: offset + from - 1}, End: hcl.Pos{Line: line, Column: to, Byte: offset + to - 1}}
	}
	return Diagnostics{
		files.At(at(3, 3, 19, 7), Diagnostic{
			Severity: Error, Summary: `plugin "weather" did not start`,
			Detail: `It printed "listening on :8080" where the handshake line was expected, then exited with status 0.`,
			Next:   "call tool.Serve before anything writes to stdout; `gantry plugin inspect weather` shows all it printed.",
		}),
		files.At(at(4, 5, 12, 28), Diagnostic{Severity: Error, Summary: "a literal key", Next: "read it with env()"}),
		files.At(at(6, 200, 210, 51), Diagnostic{Severity: Warning, Summary: "a long line", Detail: "First.\nSecond."}),
		{Severity: Error, Summary: "call failed", Plugin: "weather", Thread: "t-1", Call: "c-9", Next: "try again"},
		files.At(at(1, 1, 2, 0), Diagnostic{Severity: Error, Summary: "call failed here", Plugin: "weather", Call: "c-9", Next: "try again"}),
		{Severity: Error, Summary: "no place", Detail: "Steered \x1b[2Jby a plugin\u202e.", Next: "nothing\nreally"},
		{Severity: Error, Summary: "a setting", Range: Range{File: "-c"}, Snippet: &Snippet{Code: "a.b=c", HighlightEnd: 5}, Next: "x"},
		files.At(at(1, 1, 2, 0), Diagnostic{Severity: Warning, Summary: "twice", Next: "y"}),
		files.At(at(5, 1, 2, 49), Diagnostic{Severity: Warning, Summary: "twice", Next: "y"}),
		{Summary: "severity left out", Range: Range{File: "gone.hcl", Start: Pos{Line: 7}}},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s: %v, got:\n%s\nrun with -update to accept it after reading", name, err, got)
	}
}

func TestWrite(t *testing.T) {
	for name, colour := range map[string]bool{"plain.golden": false, "colour.golden": true} {
		var b strings.Builder
		if err := Write(&b, samples(), colour); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
	}
	if err := Write(failing{}, samples(), false); !errors.Is(err, errFull) {
		t.Errorf("err = %v, want the writer's", err)
	}
}

// A problem that a file has in each line does not flood the screen.
func TestManyPlaces(t *testing.T) {
	var ds Diagnostics
	for i := range 1000 {
		ds = append(ds, Diagnostic{Severity: Error, Summary: "not a setting", Range: Range{File: "passwd", Start: Pos{Line: i + 1}}, Next: "x"})
	}
	var b strings.Builder
	if err := Write(&b, ds, false); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 12 || !strings.Contains(b.String(), "passwd:8\n  … and 992 more places\n") {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
}

type failing struct{}

var errFull = errors.New("full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestJSON(t *testing.T) {
	b, err := json.MarshalIndent(samples(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "json.golden", string(b)+"\n")
	var back Diagnostics
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(back, "", "  ")
	if err != nil || string(again) != string(b) {
		t.Errorf("read back as %s, %v", again, err)
	}
}

func TestErr(t *testing.T) {
	ds := samples()
	err := ds.Err()
	f, ok := errors.AsType[Failure](err)
	if !ok || len(f.Diagnostics) != len(ds) {
		t.Fatalf("err = %v", err)
	}
	const want = `gantry.hcl:3: plugin "weather" did not start: It printed "listening on :8080" where the handshake line was expected, then exited with status 0. (and 6 more)`
	if err.Error() != want {
		t.Errorf("err = %q, want %q", err, want)
	}
	warnings := Diagnostics{{Severity: Warning, Summary: "x"}}
	if warnings.Err() != nil || warnings.HasErrors() || Diagnostics(nil).Err() != nil {
		t.Error("warnings are no error")
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"source", "version", "approval", "on-request", "never", "max_output_tokens", "env", "units", "retries"}
	for given, want := range map[string]string{
		"sorce": "source", "Source": "source", "soruce": "source", "verison": "version", "on_request": "on-request",
		"retrys": "retries", "unit": "units", "max_output": "max_output_tokens", "evn": "env", "neverr": "never",
		"x": "", "": "", "source": "", "bogus": "", "ab": "", "completely_different": "",
	} {
		if got := Suggest(given, names); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", given, got, want)
		}
	}
	if got := DidYouMean("x", nil, "look"); got != "look" {
		t.Errorf("DidYouMean without names = %q", got)
	}
	if got := DidYouMean("x", []string{"alpha", "beta"}, "look"); got != `use one of "alpha" or "beta"` {
		t.Errorf("DidYouMean = %q", got)
	}
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		`api_key = "sk-123"`:                     `api_key = (hidden)`,
		`api_key = sk-123`:                       `api_key = (hidden)`,
		`api_key = env("KEY")`:                   `api_key = env("KEY")`,
		`"api_key": "sk-123", "b": 1`:            `"api_key": (hidden)`,
		`config { token = "x" }`:                 `config { token = (hidden)`,
		`headers = { Authorization = "B x" }`:    `headers = { Authorization = (hidden)`,
		`api_key = ["sk-1"]`:                     `api_key = (hidden)`,
		`secrets = {`:                            `secrets = {`,
		`max_output_tokens = 5`:                  `max_output_tokens = 5`,
		`units = "metric"`:                       `units = "metric"`,
		`provider "key" {`:                       `provider "key" {`,
		"a = 1\npassword = \"x\"\nb = 2":         "a = 1\npassword = (hidden)\nb = 2",
		`unsafe_env = true`:                      `unsafe_env = true`,
		`plugin.x.config.token=abc`:              `plugin.x.config.token=(hidden)`,
		`token = null`:                           `token = null`,
		`key == "x"`:                             `key == "x"`,
		`api_key =`:                              `api_key =`,
		`dsn = "host=db password=x"`:             `dsn = (hidden)`,
		`dsn = env("D", "postgres://u:p:@@h/d")`: `dsn = env("D", "postgres://u:(hidden)@h/d")`,
		`a = "https://u:p@h" # see http://x/y`:   `a = "https://u:(hidden)@h" # see http://x/y`,
		`base_url = "https://h:8080/v1"`:         `base_url = "https://h:8080/v1"`,
		`cookie_jar = "a" # token = "b" units=3`: `cookie_jar = (hidden)`,
	} {
		if got := Mask(in); got != want {
			t.Errorf("Mask(%q) = %q, want %q", in, got, want)
		}
	}
}
