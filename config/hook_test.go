package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config"
)

// loadHooks reads the given files below a folder: system/, home/ and project/.
func loadHooks(t *testing.T, files map[string]string, sets ...string) (string, *config.Config, config.Diagnostics) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "project"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, ds := config.Load(t.Context(), config.Options{
		Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), System: filepath.Join(root, "system", "gantry.hcl"), Sets: sets,
		LookupEnv: func(name string) (string, bool) { return root, name == "HOME" },
		Trusted:   func(string, string) bool { return true },
	})
	return root, c, ds
}

func TestHooksOfAllLayers(t *testing.T) {
	root, c, ds := loadHooks(t, map[string]string{
		"system/gantry.hcl": "hooks {\n  managed_only = true\n}\nhook \"guard\" {\n  event = \"PreToolUse\"\n  command = \"/etc/guard\"\n}\n",
		"home/gantry.hcl": "hooks {\n  managed_only = false\n  on_error = \"block\"\n}\nhook \"mine\" {\n  event = \"Stop\"\n  command = \"./done\"\n" +
			"  timeout = \"5s\"\n  context_tokens = 0\n}\nhook \"claude\" {\n  file = \"~/.claude/settings.json\"\n  on_error = \"proceed\"\n}\n",
		"project/.gantry/gantry.hcl": "hook \"theirs\" {\n  file = \"./hooks/all.json\"\n}\n",
	}, `hook.now.event="Stop"`, `hook.now.command="true"`)
	if c == nil {
		t.Fatal(ds)
	}
	h := c.Hooks
	if !h.ManagedOnly || h.OnError != "block" || h.Login {
		t.Errorf("hooks = %+v; what the machine's file says of others stands", h)
	}
	type row struct {
		layer      config.Layer
		path, file string
	}
	want := map[string]row{
		"guard":  {config.LayerSystem, "system/gantry.hcl", ""},
		"mine":   {config.LayerUser, "home/gantry.hcl", ""},
		"claude": {config.LayerUser, "home/gantry.hcl", ".claude/settings.json"},
		"theirs": {config.LayerProject, "project/.gantry/gantry.hcl", "project/hooks/all.json"},
		"now":    {config.LayerCommandLine, "", ""},
	}
	for _, b := range h.Blocks {
		rel := func(p string) string { return strings.TrimPrefix(strings.TrimPrefix(p, root), "/") }
		if got := (row{b.Layer, rel(b.Path), rel(b.File)}); got != want[b.Label] {
			t.Errorf("%s = %+v, want %+v", b.Label, got, want[b.Label])
		}
		delete(want, b.Label)
		if b.Label == "mine" && (b.Timeout != 5*time.Second || b.ContextTokens == nil || *b.ContextTokens != 0 || !b.Enabled) {
			t.Errorf("mine = %+v", b)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
	if len(h.Files) != 3 || h.Files[0].Layer != config.LayerSystem || h.Files[2].Path != filepath.Join(root, "project", ".gantry", "hooks.json") {
		t.Errorf("files = %+v", h.Files)
	}
}

func TestNobodyChangesAHookOfTheMachine(t *testing.T) {
	system := "hook \"guard\" {\n  event = \"PreToolUse\"\n  command = \"/etc/guard\"\n}\n"
	for name, set := range map[string]string{"switched off": "hook.guard.enabled=false", "another command": `hook.guard.command="true"`} {
		t.Run(name, func(t *testing.T) {
			if _, c, ds := loadHooks(t, map[string]string{"system/gantry.hcl": system}, set); c != nil || !strings.Contains(fmt.Sprint(ds.Err()), "defined by the machine") {
				t.Errorf("it was changed: %v, %v", c, ds)
			}
		})
	}
}
