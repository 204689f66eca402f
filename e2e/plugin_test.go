package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// root is the repository, seen from here.
const root = ".."

// outside builds the example of the guides as somebody else would: in a folder of its own, with its own go.mod, knowing
// nothing but sdk.
func outside(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "docs/examples/weather"))); err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs(filepath.Join(root, "sdk"))
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -trimpath -tags=grpcnotrace", "GOPROXY=off", "CGO_ENABLED=0")
	for _, args := range [][]string{
		{"mod", "edit", "-replace=github.com/gantry-agent/gantry/sdk=" + sdk},
		{"build", "-ldflags=-s -w", "-o", "weather", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "weather")
}

const forecast = `
[[step]]
when = { no_tools = ["forecast"] }
times = -1
do = [{ text = "without it" }]
[[step]]
do = [{ call = "forecast", id = "c1", args = { city = "Oslo", days = 2 } }]
[[step]]
do = [{ call = "forecast", id = "c2", args = { city = "Oslo", days = 9 } }]
[[step]]
do = [{ call = "forecast", id = "c3", args = { town = "Oslo" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`

// A plugin outside of this workspace: built, configured, locked, called, changed behind the lock's back, locked again.
func TestPluginFromOutside(t *testing.T) {
	t.Parallel()
	binary := outside(t)
	r := rig.New(t, forecast)
	r.Config(fmt.Sprintf("plugin \"weather\" {\n  source = %q\n  config {\n    units = \"imperial\"\n    pace  = \"1ms\"\n  }\n}\n", binary))

	refused(t, r, `plugin "weather" is not locked`, "gantry plugin lock weather")
	r.OK("plugin", "lock", "--yes", "weather")
	if list := r.OK("plugin", "list").Stdout; !strings.Contains(list, "weather") {
		t.Errorf("the list has no weather:\n%s", list)
	}
	r.OK("plugin", "verify")

	res := r.OK("exec", "--events", "what is the weather in Oslo?")
	out := r.Last().Outputs()
	if want := regexp.MustCompile(`(?s)^Warmest first:\n\d+°F in Oslo on day \d\n\d+°F in Oslo on day \d\n$`); !want.MatchString(out["c1"]) {
		t.Errorf("the model reads %q", out["c1"])
	}
	if !strings.Contains(out["c2"], "days must be 1 to 7, not 9") {
		t.Errorf("the model reads of a wrong value: %q", out["c2"])
	}
	if !strings.Contains(out["c3"], "town") {
		t.Errorf("the model reads of wrong arguments: %q", out["c3"])
	}
	var shown strings.Builder
	progress := 0
	for _, e := range rig.Events(t, res.Stdout) {
		var d struct{ Delta, Text string }
		if e.Kind == "item.delta" {
			e.Into(t, &d)
			switch d.Delta {
			case "output":
				shown.WriteString(d.Text)
			case "progress":
				progress++
			}
		}
	}
	if strings.Count(shown.String(), "°F in Oslo on day") != 2 || progress == 0 {
		t.Errorf("people saw the output %q and %d lines of progress", shown.String(), progress)
	}
	if kept, err := filepath.Glob(filepath.Join(r.Home, "artifacts", "*", "*")); err != nil || len(kept) == 0 {
		t.Errorf("the forecast was not kept as an artifact: %v %v", kept, err)
	}
	r.NothingLeft()

	// One byte behind the lock's back.
	good, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	at := bytes.LastIndex(bad, []byte("Warmest first"))
	bad[at] = 'w'
	replace(t, binary, bad)
	leftOut(t, r, "weather", "SHA-256", "gantry plugin lock weather")
	if v := r.Gantry("plugin", "verify"); v.Code != 1 || !strings.Contains(v.Stderr+v.Stdout, "weather") {
		t.Errorf("verify: exit %d\n%s%s", v.Code, v.Stdout, v.Stderr)
	}
	replace(t, binary, good)
	r.OK("exec", "again")

	// Gone altogether.
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	leftOut(t, r, binary, "check `source`")
}

// leftOut runs a task in which a plugin can't be used: the user reads why, with place and next step, and the thread goes
// on with the other tools.
func leftOut(t *testing.T, r *rig.Rig, words ...string) {
	t.Helper()
	res := r.OK("exec", "go")
	for _, w := range append(words, "gantry.hcl:") {
		if !strings.Contains(res.Stderr, w) {
			t.Errorf("the user does not read %q:\n%s", w, res.Stderr)
		}
	}
	offered := r.Last().Offered()
	if slices.Contains(offered, "forecast") || !slices.Contains(offered, "exec_command") {
		t.Errorf("the model is offered %v, want the other tools", offered)
	}
	r.NothingLeft()
}

// replace writes a file anew, as an installation does: a running program keeps its old content.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// refused runs a task that must not begin, and checks the words of the refusal.
func refused(t *testing.T, r *rig.Rig, words ...string) rig.Result {
	t.Helper()
	before := threadCount(t, r)
	res := r.Gantry("exec", "go")
	if res.Code != 1 {
		t.Fatalf("exit %d, want a refusal:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	for _, w := range append(words, "gantry.hcl:") {
		if !strings.Contains(res.Stderr, w) {
			t.Errorf("the refusal does not say %q:\n%s", w, res.Stderr)
		}
	}
	if after := threadCount(t, r); after != before {
		t.Errorf("a refused run left %d threads", after-before)
	}
	r.NothingLeft()
	return res
}

func threadCount(t *testing.T, r *rig.Rig) int { return len(threads(t, r)) }

func TestTypoInAPluginsBlock(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	addOdd(t, r, "odd", "typo", "  config {\n    greetin = \"hi\"\n  }\n")
	conf, err := os.ReadFile(filepath.Join(r.Home, "gantry.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	line := 1 + slices.IndexFunc(strings.Split(string(conf), "\n"), func(l string) bool { return strings.Contains(l, "greetin ") })
	place := fmt.Sprintf("gantry.hcl:%d", line)
	res := r.Gantry("config", "validate")
	for _, want := range []string{place, `greetin = "hi"`, `did you mean "greeting"?`} {
		if !strings.Contains(res.Stderr+res.Stdout, want) {
			t.Errorf("validate does not say %q:\n%s%s", want, res.Stdout, res.Stderr)
		}
	}
	if res.Code != 1 {
		t.Errorf("validate: exit %d", res.Code)
	}
	// The thread goes on without the plugin.
	res = r.OK("exec", "go")
	for _, want := range []string{place, `did you mean "greeting"?`} {
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("exec does not say %q:\n%s", want, res.Stderr)
		}
	}
	if offered := r.Last().Offered(); slices.Contains(offered, "odd_fine") || !slices.Contains(offered, "exec_command") {
		t.Errorf("the model is offered %v, want the other tools", offered)
	}
	r.NothingLeft()
}

func TestValueThatAPluginsBlockMayNotHave(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	addOdd(t, r, "odd", "typo", "  config {\n    style = \"lood\"\n  }\n")
	res := r.Gantry("config", "validate")
	if res.Code != 1 || !strings.Contains(res.Stderr+res.Stdout, "gantry.hcl:") || !strings.Contains(res.Stderr+res.Stdout, "loud") {
		t.Errorf("exit %d:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// The same in another language. GANTRY_PYTHON names an interpreter with grpcio; `make test` makes one.
func TestPluginInPython(t *testing.T) {
	t.Parallel()
	python := os.Getenv("GANTRY_PYTHON")
	if python == "" {
		t.Skip("GANTRY_PYTHON is not set; `make test` sets it")
	}
	source, err := filepath.Abs(filepath.Join(root, "docs/examples/python/clock"))
	if err != nil {
		t.Fatal(err)
	}
	r := rig.New(t, `
[[step]]
expect = [{ tools = ["now", "count"] }]
do = [{ call = "count", id = "c1", args = { to = 3, pace_ms = 1 } }]
[[step]]
do = [{ call = "now", id = "c2", args = { offset_minutes = 60 } }]
[[step]]
do = [{ call = "now", id = "c3", args = { offset_minutes = 100000 } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Config(fmt.Sprintf("plugin \"clock\" {\n  source = %q\n  env {\n    CLOCK_PYTHON = %q\n  }\n  config {\n    style = \"iso\"\n  }\n}\n", source, python))
	r.OK("plugin", "lock", "--yes", "clock")
	r.OK("exec", "what time is it?")
	out := r.Last().Outputs()
	if out["c1"] != "3" {
		t.Errorf("count: %q", out["c1"])
	}
	if !strings.Contains(out["c2"], "+01:00") {
		t.Errorf("now: %q", out["c2"])
	}
	if out["c3"] == "" || strings.Contains(out["c3"], "crashed") {
		t.Errorf("a wrong value: %q", out["c3"])
	}
	r.NothingLeft()
}
