package docs_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/format"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/e2e/rig"
)

// Every block says what it is, so that none is left out unseen.
func TestBlocksAreKnown(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, info := range []string{
		"sh", "sh run", "text", "text shown", "text demo", "hcl", "hcl fragment", "hcl lock", "go build", "go", "toml", "proto", "starlark", "json",
		"typescript", "go client", "python client", "typescript client", "python viewer",
	} {
		known[info] = true
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			info := strings.TrimSpace(strings.Replace(" "+b.info, " file="+b.file(), "", 1))
			if !known[info] || info == "go" && b.file() == "" {
				t.Errorf("%s:%d: blocks of kind %q are not known, see the package comment of e2e/docs", p.name, b.line, b.info)
			}
		}
	}
}

// A block of JSON is one value, or each of its lines is a message.
func TestMessagesAreJSON(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.words()[0] != "json" || json.Valid([]byte(b.text)) {
				continue
			}
			for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
				if !json.Valid([]byte(line)) {
					t.Errorf("%s:%d: not JSON: %s", p.name, b.line+1+i, line)
				}
			}
		}
	}
}

func TestConfigurationSnippets(t *testing.T) {
	t.Parallel()
	count := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.words()[0] != "hcl" {
				continue
			}
			count++
			var ds diag.Diagnostics
			switch {
			case strings.HasPrefix(b.info, "hcl lock"):
				_, ds = lock.Parse([]byte(b.text), "gantry.lock.hcl")
			case strings.HasPrefix(b.info, "hcl fragment"):
			default:
				ds = load(t, b.text)
			}
			if ds.HasErrors() {
				t.Errorf("%s:%d: %v", p.name, b.line, ds.Err())
			}
			if text, ds := format.Format([]byte(b.text), "gantry.hcl"); ds.HasErrors() {
				t.Errorf("%s:%d: %v", p.name, b.line, ds.Err())
			} else if string(text) != b.text && !strings.HasPrefix(b.info, "hcl lock") {
				t.Errorf("%s:%d: gantry config fmt would write\n%s", p.name, b.line, text)
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d snippets were found; is the test still looking at the documents?", count)
	}
}

// load reads a text as the user's configuration, in an environment where every variable is set.
func load(t *testing.T, text string) diag.Diagnostics {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, ds := config.Load(t.Context(), config.Options{
		Home: home, Dir: home, System: "-", LookupEnv: func(string) (string, bool) { return home, true },
		Secret: func(string) (string, error) { return "secret", nil },
	})
	return ds
}

func TestGoSnippets(t *testing.T) {
	t.Parallel()
	count := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch {
			case b.info == "go build":
				count++
				build(t, p, b)
			case strings.HasPrefix(b.info, "go file="):
				count++
				text, err := os.ReadFile(filepath.Join(root, b.file()))
				if err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
				} else if !strings.Contains(string(text), b.text) {
					t.Errorf("%s:%d: %s has no such lines", p.name, b.line, b.file())
				}
			}
		}
	}
	if count == 0 {
		t.Error("no snippets were found; is the test still looking at the documents?")
	}
}

// asMake lets the go command compile as make does, which has compiled most of it before.
var asMake = []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -tags=grpcnotrace -buildvcs=false"}

// build builds a program in a module of its own that imports sdk as the weather example does.
func build(t *testing.T, p page, b block) {
	t.Helper()
	dir := t.TempDir()
	sdk, err := filepath.Abs(filepath.Join(root, "sdk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, "docs/examples/weather", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), strings.ReplaceAll(string(text), "../../../sdk", sdk))
	}
	write(t, filepath.Join(dir, "main.go"), b.text)
	cmd := exec.Command("go", "vet", ".")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), asMake...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s:%d: %v\n%s", p.name, b.line, err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The complete plugin that README promises fits into what it promises.
func TestWeatherIsShort(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "docs/examples/weather/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n >= 60 {
		t.Errorf("the weather plugin has %d lines; README.md says under 60", n)
	}
}

// bound is how long one block may run: far more than any does on two cores under the race detector.
const bound = 3 * time.Minute

// place is a copy of the repository to run snippets in, with a home folder of its own.
type place struct {
	repository, home string
	env              []string
}

// newPlace copies by linking: only what a snippet writes is new. The binaries are linked one by one, so that a snippet can
// add its own beside them.
func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "g") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := place{repository: filepath.Join(dir, "gantry"), home: filepath.Join(dir, "home")}
	for _, d := range []string{filepath.Join(p.repository, "bin"), p.home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topLevel(t) {
		symlink(t, filepath.Join(absolute, name), filepath.Join(p.repository, name))
	}
	bin, err := filepath.Abs(rig.Bin(t))
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := os.ReadDir(bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range binaries {
		symlink(t, filepath.Join(bin, b.Name()), filepath.Join(p.repository, "bin", b.Name()))
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GANTRY_") {
			p.env = append(p.env, kv)
		}
	}
	goEnv, err := exec.Command("go", "env", "GOPATH", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(goEnv))
	p.env = append(p.env, "HOME="+p.home, "GANTRY_SYSTEM_CONFIG=-", "TMPDIR="+dir,
		"PATH="+filepath.Join(p.repository, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GOPATH="+caches[0], "GOCACHE="+caches[1], "GOMODCACHE="+caches[2])
	p.env = append(p.env, asMake...)
	return p
}

func symlink(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

// sh runs a script in the copy and returns what it printed.
func (p place) sh(t *testing.T, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.repository, p.env, 5*time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// path is where a block's file goes: "~/" is the home folder, anything else lies in the repository.
func (p place) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(p.home, rest)
	}
	return filepath.Join(p.repository, name)
}

func TestSnippetsRun(t *testing.T) {
	t.Parallel()
	count := 0
	for _, p := range pages(t) {
		var runs []block
		for _, b := range p.blocks {
			if b.info == "sh run" {
				count++
				runs = append(runs, b)
			}
		}
		if len(runs) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			here := newPlace(t)
			last := ""
			for _, b := range p.blocks {
				switch {
				case b.file() != "" && b.words()[0] != "go":
					write(t, here.path(b.file()), b.text)
				case b.info == "sh run":
					out, err := here.sh(t, b.text)
					if err != nil {
						t.Fatalf("%s:%d: %v\n%s", p.name, b.line, err, out)
					}
					last = out
				case b.info == "text shown":
					if missing, ok := shown(last, b.text); !ok {
						t.Errorf("%s:%d: the block before did not print %q:\n%s", p.name, b.line, missing, last)
					}
				}
			}
		})
	}
	if count < 5 {
		t.Errorf("only %d snippets were found; is the test still looking at the documents?", count)
	}
}

func TestDemoPrintsWhatIsShown(t *testing.T) {
	t.Parallel()
	here := newPlace(t)
	out, err := here.sh(t, "scripts/demo")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	count := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.info == "text demo" {
				count++
				if missing, ok := shown(out, b.text); !ok {
					t.Errorf("%s:%d: the demo did not print %q:\n%s", p.name, b.line, missing, out)
				}
			}
		}
	}
	if count == 0 {
		t.Error("no document shows the demo")
	}
}
