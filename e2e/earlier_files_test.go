package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// The files in testdata/earlier that this file reads were written by gantry at commit e310c10; see the README there. They are
// never rewritten by a later version, since they would prove nothing then.
var rewriteEarlier = flag.Bool("earlier", false, "write the files of an earlier version in testdata/earlier anew, with the binaries of that version in GANTRY_BIN")

func earlierFile(name string) string { return filepath.Join("testdata", "earlier", name) }

// likeEarlier compares a text with a file of testdata/earlier, or writes that file.
func likeEarlier(t *testing.T, name, got string) {
	t.Helper()
	if *rewriteEarlier {
		if err := os.WriteFile(earlierFile(name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(earlierFile(name))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwhat the earlier version wrote to %s:\n%s", got, name, want)
	}
}

func copyTo(t *testing.T, to, from string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, mode); err != nil {
		t.Fatal(err)
	}
}

// A plugin that an earlier version has locked is started without locking it again, and a changed one is still refused. The lock
// covers a script, which starts docs/examples/weather as it is built now, and a file that the script loads.
func TestLockOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the program is locked for linux_amd64 only")
	}
	r := rig.New(t, forecast)
	copyTo(t, filepath.Join(r.Dir, "plug", "program"), outside(t), 0o755)
	const script = "#!/bin/sh\n. \"${0%/*}/lib/lib.sh\"\nexec \"${0%/*}/program\" \"$@\"\n"
	r.Write("plug/weather", script)
	if err := os.Chmod(filepath.Join(r.Dir, "plug", "weather"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("plug/lib/lib.sh", "WORDS=1\n")
	r.Write(".gantry/gantry.hcl", `plugin "weather" {
  source = "./plug/weather"
  files  = ["./plug/lib"]

  config {
    units = "imperial"
    pace  = "1ms"
  }

  permissions {
    capabilities = ["spawn"]
    exec         = ["sort **"]
    read         = ["/usr/share"]
  }

  limits {
    memory = "512MiB"
  }
}
`)
	lock := filepath.Join(r.Dir, ".gantry", "gantry.lock.hcl")
	if *rewriteEarlier {
		r.OK("trust", "--yes")
		r.OK("plugin", "lock", "--yes", "weather")
		copyTo(t, earlierFile("gantry.lock.hcl"), lock, 0o644)
	}
	copyTo(t, lock, earlierFile("gantry.lock.hcl"), 0o644)
	r.OK("trust", "--yes")
	if res := r.OK("plugin", "verify"); !strings.Contains(res.Stdout, "✓ weather") || res.Stderr != "" {
		t.Errorf("plugin verify:\n%s%s", res.Stdout, res.Stderr)
	}
	r.OK("exec", "what is the weather in Oslo?")
	if out := r.Last().Outputs()["c1"]; !strings.HasPrefix(out, "Warmest first:\n") {
		t.Errorf("the model reads %q", out)
	}
	r.Write("plug/lib/lib.sh", "WORDS=2\n")
	if res := r.Gantry("plugin", "verify"); res.Code == 0 || !strings.Contains(res.Stdout, "✗ weather") {
		t.Errorf("a changed file is accepted: exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}

var builtinLine = regexp.MustCompile(`# built-in:\d+`)

// Configuration files of an earlier version are valid, and every layer has the same effect.
func TestConfigurationOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	for _, file := range []struct{ to, name string }{
		{filepath.Join(r.Home, "gantry.hcl"), "user.hcl"},
		{filepath.Join(r.Dir, ".gantry", "gantry.hcl"), "project.hcl"},
	} {
		copyTo(t, file.to, earlierFile(file.name), 0o644)
	}
	r.Write("agent.md", "Be kind.\n")
	r.OK("trust", "--yes")
	if res := r.OK("config", "validate"); strings.Contains(res.Stdout+res.Stderr, "Error") {
		t.Errorf("config validate:\n%s%s", res.Stdout, res.Stderr)
	}
	for name, args := range map[string][]string{
		"show.txt":         nil,
		"show-profile.txt": {"--profile", "ci", "-c", "limits.samplings=3"},
		"show-user.txt":    {"--ignore-user-config"},
	} {
		shown := r.OK(append([]string{"config", "show"}, args...)...).Stdout
		shown = strings.NewReplacer(r.Home, "HOME", r.Dir, "PROJECT", r.Bin, "BIN").Replace(shown)
		likeEarlier(t, name, builtinLine.ReplaceAllString(shown, "# built-in"))
	}
}

// exportedEvents returns the lines of an export without the last one, which has the time of the export, and without the events
// that record what the model was told, whose form has changed since.
func exportedEvents(export string) string {
	var kept []string
	for line := range strings.Lines(export) {
		if !strings.Contains(line, `"kind":"export.ended"`) && !strings.Contains(line, `"kind":"context.told"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

const earlierExport = `
[[step]]
when = { user = "one" }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo 6 tests passed" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`

// A thread that an earlier version has exported is imported, and resumes with the requests that the earlier version sent. It has
// turns with and without a command, a compaction and a reverted turn.
func TestExportOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	prepare := func() *rig.Rig {
		r := rig.New(t, earlierExport)
		r.Dir = "/usr/share"
		r.Env = append(r.Env, "SHELL=/bin/sh", "TZ=UTC")
		r.Write(filepath.Join(r.Home, "AGENTS.md"), "Use tabs.\n")
		return r
	}
	if *rewriteEarlier {
		r := prepare()
		r.OK("exec", "one")
		r.OK("compact", "--last")
		r.OK("resume", "--last", "two")
		r.OK("resume", "--last", "three")
		r.OK("threads", "rollback", last(t, r))
		r.OK("resume", "--last", "four")
		r.OK("threads", "name", last(t, r), "earlier")
		if err := os.WriteFile(earlierFile("export.jsonl"), []byte(r.OK("threads", "export", last(t, r)).Stdout), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := prepare()
	exported, err := os.ReadFile(earlierFile("export.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.Home, "export.jsonl")
	r.Write(file, string(exported))
	r.OK("threads", "import", file)
	id := last(t, r)
	if again := r.OK("threads", "export", id).Stdout; exportedEvents(again) != exportedEvents(string(exported)) {
		t.Errorf("exporting it again gives other events:\n%s", again)
	}
	likeEarlier(t, "turns.txt", r.OK("threads", "turns", id).Stdout)
	r.OK("resume", id, "nothing has changed")
	r.Write(filepath.Join(r.Home, "AGENTS.md"), "Use spaces.\n")
	r.OK("resume", id, "the instructions have")
	var sent [][]llm.Message
	for _, q := range r.Requests() {
		sent = append(sent, dateless(q))
	}
	got, err := json.MarshalIndent(sent, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	likeEarlier(t, "imported.json", fmt.Sprintln(string(got)))
}
