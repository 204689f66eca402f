package appserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/edit"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Codex's names stand for settings that exist.
func TestAliases(t *testing.T) {
	cfg := &config.Config{DefaultModel: "m"}
	for _, a := range aliases() {
		if _, err := edit.Apply(nil, "gantry.hcl", edit.Change{Path: a.key(cfg), Value: "x"}); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
		if list, err := codexChanges(cfg, a.name, "x", false); err != nil || len(list) != 1 || !slices.Equal(list[0].Path, a.key(cfg)) || !list[0].codex {
			t.Errorf("%s: %+v, %v", a.name, list, err)
		}
		if list, err := codexChanges(&config.Config{}, a.name, "x", false); strings.Contains(a.path, "MODEL") != (err != nil) {
			t.Errorf("%s without a model: %+v, %v", a.name, list, err)
		}
	}
	sandbox := aliases()[slices.IndexFunc(aliases(), func(a alias) bool { return a.name == "sandbox_mode" })]
	for ours, theirs := range map[string]string{`"full-access"`: `"danger-full-access"`, `"read-only"`: `"read-only"`, `["x"]`: `["x"]`} {
		if got := sandbox.wire(json.RawMessage(ours)); string(got) != theirs {
			t.Errorf("%s is %s, want %s", ours, got, theirs)
		}
	}
}

// Codex's terminal writes the model and its effort together.
func TestEffortOfTheNewModel(t *testing.T) {
	edit := func(path, value string) protocol.ConfigEdit {
		return protocol.ConfigEdit{KeyPath: path, Value: json.RawMessage(value), MergeStrategy: protocol.MergeReplace}
	}
	for _, name := range []string{"model", "default_model", "gantry.default_model"} {
		list, err := settings{}.changes(&config.Config{DefaultModel: "old"}, []protocol.ConfigEdit{edit(name, `"new"`), edit("model_reasoning_effort", `"low"`)})
		if err != nil || len(list) != 2 || !slices.Equal(list[1].Path, []string{"model", "new", "reasoning"}) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// The key paths that clients read are those that they can write.
func TestKeyPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[^"]+`), 1, 4).Draw(t, "names")
		if got, err := config.SplitPath(keyPath(names)); err != nil || !slices.Equal(got, names) {
			t.Errorf("%q: %q, %v", keyPath(names), got, err)
		}
	})
}

// No edit is too odd for an answer.
func FuzzChange(f *testing.F) {
	f.Add("approval_policy", `"never"`, false)
	f.Add("sandbox_workspace_write", `{"network_access":true}`, true)
	f.Add(`model."a.b".reasoning`, `null`, false)
	f.Add("approvals_reviewer", `["x"]`, false)
	f.Add("gantry", `{}`, true)
	f.Fuzz(func(t *testing.T, path, value string, replace bool) {
		e := protocol.ConfigEdit{KeyPath: path, Value: json.RawMessage(value), MergeStrategy: protocol.MergeUpsert}
		if replace {
			e.MergeStrategy = protocol.MergeReplace
		}
		list, err := settings{}.change(&config.Config{DefaultModel: "m"}, e)
		if err != nil {
			return
		}
		text := []byte("model \"m\" {\n  provider = \"p\" # one\n}\n")
		for _, c := range list {
			if next, err := edit.Apply(text, "gantry.hcl", c.Change); err == nil {
				text = next
			}
		}
	})
}
