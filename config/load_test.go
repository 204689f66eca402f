package config_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/format"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes files below a new folder and returns the folder.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func options(root string) config.Options {
	return config.Options{
		Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), System: "-",
		LookupEnv: func(n string) (string, bool) { return root, n == "HOME" },
		Trusted:   func(string, string) bool { return true },
	}
}

func mustLoad(t testing.TB, o config.Options) *config.Config {
	t.Helper()
	c, ds := config.Load(t.Context(), o)
	if c == nil {
		t.Fatal(ds.Err())
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, options(t.TempDir()))
	if c.Approval.Policy != "on-request" || c.Sandbox.Mode != "workspace-write" || c.Network.Mode != schema.NetworkNone || c.History.ToolOutputTokens != 10000 {
		t.Errorf("defaults = %+v, %+v, %+v", c.Approval, c.Sandbox, c.History)
	}
	if m, ok := c.Model(c.DefaultModel); !ok || len(c.Models) != 1 || m.Label != "default" || m.Provider != "scripted" || m.Name != "scripted" {
		t.Errorf("default model %q, models %v", c.DefaultModel, c.Models)
	}
	if b, ok := c.Provider("scripted"); !ok || b.Address() != "builtin/scripted" || b.Kind != contract.KindProvider || len(c.Providers) != 1 {
		t.Errorf("scripted = %+v, %v", b, ok)
	}
	if c.Project != nil {
		t.Errorf("project %v, want none", c.Project)
	}
	if b, ok := c.Plugin("shell"); !ok || b.Address() != "builtin/shell" || b.Kind != contract.KindTool || !b.Enabled || b.Where() != "built-in:3" {
		t.Errorf("shell = %+v, %v", b, ok)
	}
	if ds := c.Validate(); len(ds) != 0 {
		t.Errorf("Validate = %v", ds)
	}
}

// The model that comes along never takes the place of one that the user has written down.
func TestDefaultModel(t *testing.T) {
	const a, b = "model \"a\" {\n provider = \"scripted\"\n name = \"x\"\n}\n", "model \"b\" {\n provider = \"scripted\"\n name = \"x\"\n}\n"
	for text, want := range map[string]string{
		"":                                  "default",
		a:                                   "a",
		a + b:                               "",
		a + "default_model = \"default\"\n": "default",
		a + strings.Replace(b, `"b"`, `"default"`, 1): "default",
	} {
		c := mustLoad(t, options(write(t, map[string]string{"home/gantry.hcl": text})))
		if c.DefaultModel != want {
			t.Errorf("the default model of\n%s is %q, want %q", text, c.DefaultModel, want)
		}
	}
	// Half a model is not filled up from the built-in one: the task would go to the script unseen.
	root := write(t, map[string]string{"home/gantry.hcl": "model \"default\" {\n name = \"gpt\"\n}\n"})
	if _, ds := config.Load(t.Context(), options(root)); !strings.Contains(fmt.Sprint(ds.Err()), `"provider" of model "default" is required`) {
		t.Errorf("a model without a provider: %v", ds)
	}
}

func TestStarterIsValid(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": config.Starter()})
	c, ds := config.Load(t.Context(), options(root))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	if strings.Join(c.Profiles, " ") != "ci" {
		t.Errorf("profiles = %v, want ci", c.Profiles)
	}
	// What it shows as comments is valid, too.
	var text strings.Builder
	for l := range strings.Lines(config.Starter()) {
		if strings.HasPrefix(l, "# ") && strings.ContainsAny(l, "={}") && !strings.Contains(l, "`") {
			l = l[2:]
		}
		text.WriteString(l)
	}
	root = write(t, map[string]string{"home/gantry.hcl": text.String()})
	c, ds = config.Load(t.Context(), options(root))
	if len(ds) > 0 {
		t.Fatalf("%v in\n%s", ds, text.String())
	}
	if c.DefaultModel != "default" || len(c.Plugins) != 2 || len(c.Providers) != 2 {
		t.Errorf("model %q, plugins %v, providers %v", c.DefaultModel, c.Plugins, c.Providers)
	}
}

func TestEverySetting(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": `
default_model = "fast"
provider "p" {
  source = "weather@1.4.2"
  version = "~> 1.4"
  args = ["--a", "b"]
  enabled = true
  transport = "mtls"
  start_timeout = "2m"
  unsafe_env = true
  env {
    LD_PRELOAD = "x.so"
    TOKEN = env("HOME")
  }
  permissions {
    read = ["~/r", "data"]
    write = ["/w/../w2"]
    capabilities = []
  }
  limits {
    memory = "1.5GiB"
    pids = 7
    storage = "2GiB"
    state = "1MiB"
  }
}
plugin "off" {
  source = "./bin/off"
  enabled = false
  permissions {
    network = ["*"]
    exec = ["git *"]
  }
}
model "default" {
  provider = "p"
  name = "n"
  reasoning = "high"
  context_window = 1000
  max_output_tokens = "100"
  fallback = ["fast"]
}
model "fast" {
  provider = "p"
  name = "f"
}
approval { policy = "never" }
sandbox {
  mode = "workspace-write"
  writable_roots = ["w", "~/x", "/y"]
  network = true
}
limits {
  samplings = 40
  memory = "256MiB"
  pids = 100
  cpu_time = "1h"
  open_files = 1024
  file_size  = "1GiB"
  output = "1MB"
}
history {
  tool_output_tokens = 5
  compact_at_tokens = 900
  compact_counts = "new"
  compact_prompt = "shorter"
}
store {
  retention {
    max_age = "30d"
    max_threads = 10
    keep_named = true
  }
}
`})
	c := mustLoad(t, options(root))
	p, _ := c.Provider("p")
	for _, check := range []struct {
		name      string
		got, want any
	}{
		{"version", p.Version.String(), "~> 1.4"},
		{"args", p.Args, []string{"--a", "b"}},
		{"transport", p.Transport, "mtls"},
		{"start_timeout", p.StartTimeout, 2 * time.Minute},
		{"env", p.Env, map[string]string{"LD_PRELOAD": "x.so", "TOKEN": root}},
		{"limits", p.Limits, config.ProcessLimits{MemoryBytes: 3 << 29, Pids: 7, StorageBytes: 2 << 30, StateBytes: 1 << 20, ArtifactBytes: 4 << 30, EventBytes: 64 << 20}},
		{"network", must(c.Plugin("off")).Permissions.Network, []string{"*"}},
		{"exec", must(c.Plugin("off")).Permissions.Exec, []string{"git *"}},
		{"no exec", p.Permissions.Exec == nil, true},
		{"read", p.Permissions.Read, []string{root + "/r", root + "/home/data"}},
		{"write", p.Permissions.Write, []string{"/w2"}},
		{"capabilities", p.Permissions.Capabilities != nil, true},
		{"lock file", p.LockFile, root + "/home/gantry.lock.hcl"},
		{"model", *must(c.Model("default")), config.Model{Label: "default", Provider: "p", Name: "n", Reasoning: "high", ContextWindow: 1000,
			MaxOutputTokens: 100, Fallback: []string{"fast"}, Range: must(c.Model("default")).Range}},
		{"default model", c.DefaultModel, "fast"},
		{"policy", c.Approval.Policy, "never"},
		{"sandbox", c.Sandbox, config.Sandbox{Mode: "workspace-write", WritableRoots: []string{root + "/home/w", root + "/x", "/y"}, Network: true, Range: c.Sandbox.Range}},
		{"process limits", c.Limits, config.Limits{Samplings: 40, BusyWait: 5 * time.Minute, MemoryBytes: 256 << 20, Pids: 100, CPUTime: time.Hour, OpenFiles: 1024, FileBytes: 1 << 30, OutputBytes: 1e6}},
		{"history", c.History, config.History{ToolOutputTokens: 5, CompactAtTokens: 900, CompactNew: true, CompactPrompt: "shorter"}},
		{"retention", c.Store.Retention, config.Retention{MaxAge: 720 * time.Hour, MaxThreads: 10, KeepNamed: true}},
		{"blocks in use", len(c.Blocks()), 3},
	} {
		if fmt.Sprintf("%+v", check.got) != fmt.Sprintf("%+v", check.want) {
			t.Errorf("%s = %+v, want %+v", check.name, check.got, check.want)
		}
	}
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("not found")
	}
	return v
}

func TestProjectIsBoundToItsContent(t *testing.T) {
	root := write(t, map[string]string{
		"project/.gantry/gantry.hcl":      `approval { policy = "never" }`,
		"project/.gantry/gantry.lock.hcl": "plugin \"./bin/x\" {\n  version = \"1.0.0\"\n}\n",
		"project/sub/dir/file":            "",
		"home/gantry.hcl":                 "plugin \"u\" {\n  source = \"./bin/x\"\n}\n",
	})
	store := trust.Open(filepath.Join(root, "home"))
	o := options(root)
	o.Trusted = store.Trusted
	o.Dir = filepath.Join(root, "project", "sub", "dir")

	c := mustLoad(t, o)
	if c.Approval.Policy != "on-request" || c.Sandbox.Mode != "read-only" || c.Project == nil || c.Project.Trusted {
		t.Fatalf("before an answer: policy %q, sandbox %q, project %+v", c.Approval.Policy, c.Sandbox.Mode, c.Project)
	}
	if c.Project.Dir != filepath.Join(root, "project") {
		t.Errorf("project = %s", c.Project.Dir)
	}
	if err := store.Add(t.Context(), c.Project.Dir, c.Project.Digest); err != nil {
		t.Fatal(err)
	}
	if c = mustLoad(t, o); c.Approval.Policy != "never" || c.Sandbox.Mode != "workspace-write" || !c.Project.Trusted {
		t.Errorf("after the answer: policy %q, sandbox %q", c.Approval.Policy, c.Sandbox.Mode)
	}

	// Another lock file is other content: it decides what may be started.
	lockFile := filepath.Join(root, "project", ".gantry", "gantry.lock.hcl")
	changed := []byte("plugin \"./bin/x\" {\n  version = \"1.0.1\"\n}\n")
	if err := os.WriteFile(lockFile, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if now := mustLoad(t, o); now.Project.Trusted {
		t.Error("still trusted after the lock file changed")
	}
	// ... unless gantry wrote it.
	if err := store.Renew(t.Context(), c.Project.Dir, c.Project.Digest, c.Project.DigestWith(map[string][]byte{"gantry.lock.hcl": changed})); err != nil {
		t.Fatal(err)
	}
	if now := mustLoad(t, o); !now.Project.Trusted {
		t.Error("not trusted after the answer was renewed")
	}
	if err := os.WriteFile(filepath.Join(root, "project", ".gantry", "gantry.hcl.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if now := mustLoad(t, o); now.Project.Trusted {
		t.Error("still trusted with another file")
	}
}

func TestLockOfAProjectIsTheOneThatWasTrusted(t *testing.T) {
	root := write(t, map[string]string{
		"project/.gantry/gantry.hcl":      "plugin \"x\" {\n  source = \"./bin/x\"\n}\n",
		"project/.gantry/gantry.lock.hcl": "plugin \"./bin/x\" {\n  version = \"1.0.0\"\n}\n",
		"home/gantry.hcl":                 "plugin \"y\" {\n  source = \"./bin/y\"\n}\n",
		"home/gantry.lock.hcl":            "plugin \"./bin/y\" {\n  version = \"2.0.0\"\n}\n",
	})
	c := mustLoad(t, options(root))
	x, y := must(c.Plugin("x")), must(c.Plugin("y"))
	// A path in the project's file starts at the project.
	if x.Path != filepath.Join(root, "project", "bin", "x") || y.Path != filepath.Join(root, "home", "bin", "y") {
		t.Errorf("paths = %q, %q", x.Path, y.Path)
	}
	if err := os.WriteFile(x.LockFile, []byte("plugin \"./bin/x\" {\n  version = \"6.6.6\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for b, want := range map[*config.PluginBlock]string{x: "1.0.0", y: "2.0.0"} {
		l, ds := c.Lock(b)
		if ds.HasErrors() {
			t.Fatal(ds)
		}
		if e, ok := l.Entry(b.Address()); !ok || e.Version.String() != want {
			t.Errorf("lock of %s = %+v, %v, want version %s", b.Label, e, ok, want)
		}
	}
	if c.Grants("./bin/x") != c.Grants("./bin/y") || c.Grants("./bin/x").Scheme() != lock.SchemeGrants {
		t.Errorf("grants = %q, %q, want the digest of nothing twice", c.Grants("./bin/x"), c.Grants("./bin/y"))
	}
}

func TestHomeIsNoProject(t *testing.T) {
	root := write(t, map[string]string{".gantry/gantry.hcl": "", "sub/file": ""})
	o := options(root)
	o.Home, o.Dir = filepath.Join(root, ".gantry"), filepath.Join(root, "sub")
	if c := mustLoad(t, o); c.Project != nil {
		t.Errorf("project = %+v, want none", c.Project)
	}
	o.Home = ""
	if c := mustLoad(t, o); c.Home != filepath.Join(root, ".gantry") || len(c.Files) != 2 {
		t.Errorf("home = %s, files %v, want ~/.gantry", c.Home, c.Files)
	}
	o.LookupEnv = func(n string) (string, bool) { return filepath.Join(root, "elsewhere"), n == "GANTRY_HOME" }
	if c := mustLoad(t, o); c.Home != filepath.Join(root, "elsewhere") {
		t.Errorf("home = %s, want $GANTRY_HOME", c.Home)
	}
}

func TestSystemFileAndJSONOfTheSameLayer(t *testing.T) {
	root := write(t, map[string]string{
		"etc/gantry.hcl":       "approval {\n policy = \"never\"\n}\nhistory {\n tool_output_tokens = 1\n}\n",
		"home/gantry.hcl":      "history {\n tool_output_tokens = 2\n}\n",
		"home/gantry.hcl.json": `{"history": {"tool_output_tokens": 3}}`,
	})
	o := options(root)
	o.System = filepath.Join(root, "etc", "gantry.hcl")
	c := mustLoad(t, o)
	if c.Approval.Policy != "never" || c.History.ToolOutputTokens != 3 {
		t.Errorf("policy %q, tokens %d, want never and 3", c.Approval.Policy, c.History.ToolOutputTokens)
	}
}

func TestUnreadableFilesAreErrors(t *testing.T) {
	root := write(t, map[string]string{"home/x": "", "project/x": ""})
	if err := os.Mkdir(filepath.Join(root, "home", "gantry.hcl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if c, ds := config.Load(t.Context(), options(root)); c != nil || len(ds) != 1 || !strings.Contains(ds[0].Detail, "not a regular file") {
		t.Errorf("Load = %v, %v, want an error", c, ds)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if c, ds := config.Load(ctx, options(t.TempDir())); c != nil || !ds.HasErrors() {
		t.Errorf("Load = %v, %v, want an error after the context has ended", c, ds)
	}
}

func TestStoredSecrets(t *testing.T) {
	root := write(t, map[string]string{
		"home/secrets/good": "value\n", "home/secrets/open": "value\n",
		"home/gantry.hcl": `
provider "good" {
  source = "builtin/x"
  key = secret("good")
}
provider "open" {
  source = "builtin/x"
  key = secret("open")
}
provider "path" {
  source = "builtin/x"
  key = secret("../gantry.hcl")
}
provider "none" {
  source = "builtin/x"
  key = secret("none")
}
`})
	if err := os.Chmod(filepath.Join(root, "home", "secrets", "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, options(root))
	m := &contract.Manifest{Kind: contract.KindProvider, Config: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "key", Type: json.RawMessage(`"string"`)}}}}
	text, secrets, ds := must(c.Provider("good")).Render(m)
	if string(text) != `{"key":{"$secret":"key"}}` || secrets["key"].Value != "value" || len(ds) > 0 {
		t.Errorf("Render = %s, %q, %v", text, secrets["key"].Value, ds)
	}
	if got := fmt.Sprintf("%v %+v %#v %s %q", secrets, secrets, secrets, secrets, secrets); strings.Contains(got, "value") {
		t.Errorf("secrets print as %s", got)
	}
	if got, err := json.Marshal(secrets); err != nil || strings.Contains(string(got), "value") {
		t.Errorf("secrets marshal as %s, %v", got, err)
	}
	for label, want := range map[string]string{"open": "is readable by other users", "path": "the name of a secret", "none": "no such file"} {
		text, _, ds := must(c.Provider(label)).Render(m)
		if text != nil || len(ds) != 1 || !strings.Contains(ds[0].Detail, want) {
			t.Errorf("%s: %s, %v, want an error with %q", label, text, ds, want)
		}
	}
	if ds := c.Validate(); len(ds) != 3 {
		t.Errorf("Validate = %v, want three missing secrets", ds)
	}
}

func TestFileFunction(t *testing.T) {
	root := write(t, map[string]string{
		"project/.gantry/gantry.hcl": "model \"m\" {\n provider = \"p\"\n name = file(\"name.txt\")\n}\nprovider \"p\" {\n source = \"builtin/x\"\n key = file(\"nope\")\n}\n",
		"project/name.txt":           "gpt-5.2\r\n",
	})
	c := mustLoad(t, options(root))
	if m := must(c.Model("m")); m.Name != "gpt-5.2" || len(m.Problems) > 0 {
		t.Errorf("model = %+v", m)
	}
	if ds := c.Validate(); len(ds) != 1 || !strings.Contains(ds[0].Summary, `file "nope" can't be used`) {
		t.Errorf("Validate = %v", ds)
	}
}

func TestVariablesThatABlockReads(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": `
provider "p" {
  source = "builtin/x"
  api_key = env("A")
  url = "https://${env("B")}/${file(env("C"))}"
  retry {
    key = env("D", env("E"))
  }
}
plugin "q" {
  source = "builtin/y"
  config {
    x = { y = [env("F")], z = secret("never-resolved") }
  }
}
`})
	o := options(root)
	o.Secret = func(string) (string, error) { t.Error("a secret was read"); return "", errors.New("no") }
	o.Sets = []string{`provider.p.token=env("G")`}
	c := mustLoad(t, o)
	if got := strings.Join(must(c.Provider("p")).Variables(), " "); got != "A B C D E G" {
		t.Errorf("variables of p = %s", got)
	}
	if got := strings.Join(must(c.Plugin("q")).Variables(), " "); got != "F" {
		t.Errorf("variables of q = %s", got)
	}
}

func TestPluginDiagnosticsGetPlaces(t *testing.T) {
	root := write(t, map[string]string{"project/.gantry/gantry.hcl": "plugin \"w\" {\n  source = \"./w\"\n  config {\n    units = \"x\"\n  }\n}\n"})
	c := mustLoad(t, options(root))
	ds := must(c.Plugin("w")).Diagnose([]contract.Diagnostic{
		{Severity: contract.SeverityWarning, Summary: "odd units", Path: []contract.Step{contract.Name("units")}, Next: "use metric"},
		{Summary: "no place\x1b[31m"},
	})
	var out bytes.Buffer
	if err := diag.Write(&out, ds, false); err != nil {
		t.Fatal(err)
	}
	const want = `Error: no place␛[31m
  .gantry/gantry.hcl:3  config {
  Next: ` + "`gantry plugin inspect w`" + ` lists its settings

Warning: odd units
  .gantry/gantry.hcl:4  units = "x"
  Next: use metric
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestPlaces(t *testing.T) {
	root := write(t, map[string]string{"project/.gantry/gantry.hcl": `sandbox {
  mode = "read-only"
}
plugin "w" {
  source = "./w"
  permissions {
    capabilities = ["spawn", "netwrok"]
  }
}
`})
	o := options(root)
	o.File = ".gantry/gantry.hcl" // named, it means the same
	c := mustLoad(t, o)
	b := must(c.Plugin("w"))
	if b.Path != filepath.Join(root, "project", "w") {
		t.Errorf("path = %s, want one in the project", b.Path)
	}
	_, _, ds := b.Render(&contract.Manifest{Kind: contract.KindTool, Capabilities: []string{"spawn", "network"}})
	ds = append(ds,
		c.Place(c.Sandbox.Range, diag.Diagnostic{Summary: "sandbox mode \"read-only\" can't be enforced", Next: "use full-access"}),
		b.Place(diag.Diagnostic{Summary: "plugin \"w\" did not start", Next: "look"}))
	var out bytes.Buffer
	if err := diag.Write(&out, ds, false); err != nil {
		t.Fatal(err)
	}
	const want = `Warning: capability "netwrok" has no effect
  .gantry/gantry.hcl:7  capabilities = ["spawn", "netwrok"]
  The plugin does not declare it.
  Next: did you mean "network"?

Error: sandbox mode "read-only" can't be enforced
  .gantry/gantry.hcl:2  mode = "read-only"
  Next: use full-access

Error: plugin "w" did not start
  .gantry/gantry.hcl:4  plugin "w" {
  Next: look
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestOwnTextsAreFormatted(t *testing.T) {
	for _, name := range []string{"builtin.hcl", "stranger.hcl", "starter.hcl"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, ds := format.Format(text, name); string(got) != string(text) || len(ds) > 0 {
			t.Errorf("%s is not in canonical layout: %v\n%s", name, ds, got)
		}
	}
}

func TestConfigIsSafeForManyReaders(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": "provider \"p\" {\n source = \"builtin/x\"\n key = env(\"HOME\")\n}\n"})
	c := mustLoad(t, options(root))
	m := &contract.Manifest{Kind: contract.KindProvider, Config: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "key", Type: json.RawMessage(`"string"`)}}}}
	b := must(c.Provider("p"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, ds := b.Render(m); len(ds) > 0 {
				t.Error(ds)
			}
			b.Variables()
			c.Validate()
			b.Locate([]contract.Step{contract.Name("key")})
			if err := c.Show(&bytes.Buffer{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSetsKeepNumbersAsTheyWereWritten(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": "provider \"p\" {\n source = \"builtin/x\"\n}\nmodel \"default\" {\n provider = \"p\"\n name = \"x\"\n}\nmodel \"a.b\" {\n provider = \"p\"\n name = \"x\"\n}\n"})
	for _, tt := range []struct{ set, label, want string }{
		{`model.default.name=gpt-5.2`, "default", "gpt-5.2"},
		{`model.default.name="gpt-5.2"`, "default", "gpt-5.2"},
		{`model.default.name=1.10`, "default", "1.10"},
		{`model.default.name=a=b`, "default", "a=b"},
		{`model.default.name=on-request`, "default", "on-request"},
		{`model.default.name=https://x.y/?a=b#c`, "default", "https://x.y/?a=b#c"},
		{`model.default.reasoning=`, "default", "before"},
		{`model."a.b".name=y`, "a.b", "y"},
		{`model["a.b"].name=y`, "a.b", "y"},
		{`model.default.name="${env("HOME")}/x"`, "default", root + "/x"},
	} {
		o := options(root)
		o.Sets = []string{"model.default.name=before", tt.set}
		if got := must(mustLoad(t, o).Model(tt.label)).Name; got != tt.want {
			t.Errorf("-c %s: %q, want %q", tt.set, got, tt.want)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	root := write(b, map[string]string{
		"home/gantry.hcl":            config.Starter(),
		"project/.gantry/gantry.hcl": typical,
	})
	o := options(root)
	for b.Loop() {
		if c, ds := config.Load(b.Context(), o); c == nil {
			b.Fatal(ds)
		}
	}
}

const typical = `
provider "openai" {
  source  = "builtin/openai"
  api_key = env("OPENAI_API_KEY")
}

model "default" {
  provider  = "openai"
  name      = "gpt-5.2"
  reasoning = "medium"
}

plugin "shell" {
  source = "builtin/shell"
}

plugin "weather" {
  source = "./bin/weather"

  config {
    units = "metric"
  }

  permissions {
    network = ["*"]
  }

  limits {
    memory = "256MiB"
  }
}

approval {
  policy = "on-request"
}

sandbox {
  mode = "full-access"
}
`

// A setting that could not be held to is refused where it is written.
func TestPermissionsThatCannotBeEnforced(t *testing.T) {
	for block, want := range map[string]string{
		"provider \"p\" {\n source = \"builtin/scripted\"\n permissions {\n network = [\"*\"]\n }\n}":                                      "permissions { network } has no effect in a provider block",
		"provider \"p\" {\n source = \"builtin/scripted\"\n permissions {\n exec = []\n }\n}":                                              "permissions { exec } has no effect in a provider block",
		"plugin \"p\" {\n source = \"./p\"\n permissions {\n network = [\"https://example.com\"]\n }\n}":                                   "invalid permission",
		"plugin \"p\" {\n source = \"./p\"\n permissions {\n network = [\"*\"]\n capabilities = [\"spawn\"]\n }\n}":                        "network access is granted, but its capability is not",
		"plugin \"p\" {\n source = \"./p\"\n permissions {\n network = [\"*\"]\n exec = [\"git *\"]\n capabilities = [\"network\"]\n }\n}": "",
	} {
		root := write(t, map[string]string{"home/gantry.hcl": block + "\n"})
		c, ds := config.Load(t.Context(), options(root))
		if c != nil {
			for _, b := range c.Blocks() {
				ds = append(ds, b.Problems...)
			}
		}
		if got := fmt.Sprint(ds); (want == "") != !ds.HasErrors() || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", block, got, want)
		}
	}
	// What only the manifest tells: a provider's network can't be withheld.
	root := write(t, map[string]string{"home/gantry.hcl": "provider \"p\" {\n source = \"builtin/scripted\"\n permissions {\n capabilities = [\"secrets\"]\n }\n}\n"})
	p, _ := mustLoad(t, options(root)).Provider("p")
	m := &contract.Manifest{Name: "p", Kind: contract.KindProvider, Capabilities: []string{"network", "secrets"}}
	if _, _, ds := p.Render(m); !ds.HasErrors() || !strings.Contains(fmt.Sprint(ds), "can't be withheld from a provider") {
		t.Errorf("%v", ds)
	}
}

// Paths on a command line start where it was typed, whatever the working folder is.
func TestPathsOfTheCommandLine(t *testing.T) {
	root := write(t, map[string]string{
		"typed/extra.hcl":   "plugin \"beside\" {\n source = \"./bin/x\"\n}\n",
		"project/extra.hcl": "plugin \"wrong\" {\n source = \"./bin/x\"\n}\n",
	})
	o := options(root)
	o.Typed = filepath.Join(root, "typed")
	o.File, o.Sets = "extra.hcl", []string{`plugin.set.source="./bin/y"`}
	c := mustLoad(t, o)
	for label, want := range map[string]string{"beside": "typed/bin/x", "set": "typed/bin/y"} {
		b, ok := c.Plugin(label)
		if !ok || b.Path != filepath.Join(root, filepath.FromSlash(want)) {
			t.Errorf("plugin %q = %+v, want the program %s", label, b, want)
		}
	}
	if c.Dir != o.Dir {
		t.Errorf("the working folder is %s, want %s", c.Dir, o.Dir)
	}
	// A caller that does not say where means the working folder.
	o.Typed, o.Sets = "", nil
	if _, ok := mustLoad(t, o).Plugin("wrong"); !ok {
		t.Error("without a place of its own --config does not start at the working folder")
	}
}

// Without a home folder "~/" means nothing, and is not looked for anywhere else.
func TestHomeIsNotSet(t *testing.T) {
	t.Setenv("HOME", "")
	for text, line := range map[string]string{
		"plugin \"p\" {\n source = \"~/bin/p\"\n}\n":                                       "gantry.hcl:2",
		"sandbox {\n writable_roots = [\"/tmp\", \"~/work\"]\n}\n":                         "gantry.hcl:2",
		"plugin \"p\" {\n source = \"/p\"\n permissions {\n  read = [\"~/work\"]\n }\n}\n": "gantry.hcl:4",
	} {
		o := options(write(t, map[string]string{"home/gantry.hcl": text}))
		o.LookupEnv = func(string) (string, bool) { return "", false }
		c, ds := config.Load(t.Context(), o)
		if c != nil || len(ds) != 1 || !strings.HasSuffix(ds[0].Range.String(), line) || !strings.Contains(ds[0].Detail, "$HOME, which is not set") || ds[0].Next == "" {
			t.Errorf("%s: %+v, want one error at %s", text, ds, line)
		}
	}
	root := write(t, map[string]string{"home/gantry.hcl": "model \"m\" {\n provider = \"scripted\"\n name = file(\"~/name\")\n}\n"})
	o := options(root)
	o.LookupEnv = func(string) (string, bool) { return "", false }
	if m, ok := mustLoad(t, o).Model("m"); !ok || len(m.Problems) != 1 || !strings.Contains(fmt.Sprint(m.Problems), "$HOME, which is not set") {
		t.Errorf("model = %+v", m)
	}
}
