package helper

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
)

func run(mode, in string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Main([]string{"shell", mode}, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

func TestWanted(t *testing.T) {
	for line, want := range map[string]bool{
		"x --verify": true, "x --apply": true, "x --view": true, "x --look": true, "x": false, "x --describe": false, "x --apply y": false, "": false,
	} {
		if got := Wanted(strings.Fields(line)); got != want {
			t.Errorf("Wanted(%q) = %v", line, got)
		}
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	for _, tt := range []struct{ mode, in, want string }{
		{modeVerify, "", "--verify: read request: EOF\n"},
		{modeApply, "{", "--apply: read request: unexpected EOF\n"},
		{modeApply, `{"version":2}`, "--apply: the request is empty\n"},
		{modeLook, `{"version":2}`, "--look: the request is empty\n"},
		{modeView, `{"version":1}`, "--view: the request has version 1, but this binary supports 2: restart the plugin\n"},
	} {
		if code, out, errs := run(tt.mode, tt.in); code != 1 || out != "" || errs != tt.want {
			t.Errorf("%s %q: %d, %q, %q; want %q", tt.mode, tt.in, code, out, errs, tt.want)
		}
	}
}

// What one helper says is what the next one does.
func TestVerifyThenApply(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("caf\xe9\na\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask, err := json.Marshal(request{Version: version, Cwd: dir, Patch: "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"})
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(modeVerify, string(ask))
	var a answer
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != 0 || errs != "" || a.Plan == nil {
		t.Fatalf("verify: %d, %q, %q, %v", code, out, errs, err)
	}
	if got := string(a.Plan.Changes[0].Before.Data); got != "caf\xe9\na\n" {
		t.Errorf("before = %q", got)
	}
	ask, err = json.Marshal(request{Version: version, Plan: a.Plan.Slim()})
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs = run(modeApply, string(ask))
	a = answer{}
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != 0 || errs != "" || a.Outcome == nil || *a.Outcome != (patch.Outcome{Done: 1}) {
		t.Fatalf("apply: %d, %q, %q, %v", code, out, errs, err)
	}
	if got, _ := os.ReadFile(file); string(got) != "caf\xe9\nb\n" {
		t.Errorf("file = %q", got)
	}
}

func TestBoundedKeepsTheBeginning(t *testing.T) {
	b := limitedBuffer{limit: 4}
	for _, s := range []string{"ab", "cde", "f"} {
		if n, err := b.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if b.buf.String() != "abcd" || !b.truncated {
		t.Errorf("kept %q, over %v", b.buf.String(), b.truncated)
	}
}
