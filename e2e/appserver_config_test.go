package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// layer is a layer of the configuration, as config/read returns it.
type layer struct {
	Name struct {
		Type, File string
		Folder     string `json:"dotCodexFolder"`
	}
	Version        string
	Config         map[string]any
	DisabledReason *string
}

// configuration is the result of config/read.
type configuration struct {
	Config  map[string]any
	Origins map[string]layer
	Layers  []layer
}

// written is the result of config/value/write.
type written struct {
	Status, Version, FilePath string
	OverriddenMetadata        *struct {
		Message         string
		OverridingLayer layer
		EffectiveValue  any
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// code sends a request that must fail, and returns the code of its error for programs, its message and its next step.
func code(t *testing.T, c *rig.Client, method string, params any) (code, message, next string) {
	t.Helper()
	m := c.Reply(c.Request(method, params))
	if m.Error == nil || m.Error.Code != -32600 {
		t.Fatalf("%v: %+v %s", params, m.Error, m.Result)
	}
	var data struct {
		Code string `json:"config_write_error_code"`
		Next string
	}
	if err := json.Unmarshal(m.Error.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data.Code, m.Error.Message, data.Next
}

// The configuration has the settings of all layers, under codex's names and gantry's, and says which file each comes from.
func TestAppServerConfigRead(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	r.Config("network {\n  mode  = \"proxy\"\n  allow = [\"example.com\"]\n}\nprovider \"other\" {\n  source = \"builtin/scripted\"\n  env {\n    TOKEN = \"hush\"\n  }\n}\n")
	r.Write(".gantry/gantry.hcl", "limits {\n  samplings = 7\n}\n")
	c := r.AppServer("-c", "sandbox.mode=read-only")
	greet(t, c)
	var got configuration
	c.Call("config/read", map[string]any{"includeLayers": true}, &got)
	own, _ := got.Config["gantry"].(map[string]any)
	network, _ := own["network"].(map[string]any)
	hosts, _ := network["allow"].([]any)
	if got.Config["model"] != "default" || got.Config["model_provider"] != "scripted" || got.Config["approval_policy"] != "never" ||
		got.Config["sandbox_mode"] != "read-only" || len(hosts) != 1 || hosts[0] != "example.com" {
		t.Errorf("%v", got.Config)
	}
	file := filepath.Join(r.Home, "gantry.hcl")
	for path, want := range map[string]string{
		"approval_policy": "user", "gantry.approval.policy": "user", "sandbox_mode": "sessionFlags", "gantry.network.allow": "user",
	} {
		if o := got.Origins[path]; o.Name.Type != want || want == "user" && o.Name.File != file || !strings.HasPrefix(o.Version, "sha256:") {
			t.Errorf("%s is from %+v", path, o)
		}
	}
	if len(got.Layers) != 3 || got.Layers[0].Name.Type != "sessionFlags" || got.Layers[1].Name.Type != "project" || got.Layers[2].Name.Type != "user" {
		t.Fatalf("%+v", got.Layers)
	}
	if l := got.Layers[1]; l.Name.Folder != filepath.Join(r.Dir, ".gantry") || l.DisabledReason == nil || !strings.Contains(*l.DisabledReason, "gantry trust") {
		t.Errorf("%+v", l)
	}
	if l := got.Layers[2]; l.Config["approval_policy"] != "never" || l.Config["sandbox_mode"] != "danger-full-access" || l.DisabledReason != nil {
		t.Errorf("%+v", l)
	}
	if all, err := json.Marshal(got); err != nil || strings.Contains(string(all), "hush") {
		t.Errorf("a secret is shown: %s", all)
	}
	r.OK("trust", "--yes")
	if c.Call("config/read", map[string]any{"includeLayers": true, "cwd": r.Dir}, &got); got.Origins["gantry.limits.samplings"].Name.Type != "project" {
		t.Errorf("%+v", got.Origins)
	}
}

// A change keeps the rest of the file, and applies to new threads. A change that is not valid, or that comes too late, changes nothing.
func TestAppServerConfigWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	file := filepath.Join(r.Home, "gantry.hcl")
	r.Config("# Keep me.\nlimits {\n  samplings = 9 # a lot\n}\n")
	c := r.AppServer()
	greet(t, c)
	version := func() string {
		t.Helper()
		var got configuration
		c.Call("config/read", map[string]any{"includeLayers": true}, &got)
		return got.Layers[0].Version
	}
	before := version()
	var w written
	c.Call("config/value/write", map[string]any{"keyPath": "approval_policy", "value": "untrusted", "mergeStrategy": "replace", "expectedVersion": before}, &w)
	if w.Status != "ok" || w.FilePath != file || w.Version == before || w.Version != version() || w.OverriddenMetadata != nil {
		t.Errorf("%+v", w)
	}
	text := content(t, file)
	if !strings.Contains(text, "policy = \"untrusted\"") || !strings.Contains(text, "# Keep me.\nlimits {\n  samplings = 9 # a lot\n}") {
		t.Errorf("%s", text)
	}
	var started struct{ ApprovalPolicy string }
	if c.Call("thread/start", map[string]any{}, &started); started.ApprovalPolicy != "untrusted" {
		t.Errorf("a new thread: %+v", started)
	}

	edit := func(path string, value any) map[string]any {
		return map[string]any{"keyPath": path, "value": value, "mergeStrategy": "upsert"}
	}
	c.Call("config/batchWrite", map[string]any{"expectedVersion": w.Version, "edits": []any{
		edit("sandbox_mode", "danger-full-access"), edit("model_reasoning_effort", "low"), edit("gantry.limits.turn_time", "5m"), edit("limits.samplings", nil),
		edit("sandbox_workspace_write", map[string]any{"network_access": false, "writable_roots": []string{"/srv"}}), edit("approvals_reviewer", "auto_review"),
		edit("network", map[string]any{"mode": "proxy", "allow": []string{"example.com"}}),
	}}, &w)
	text = content(t, file)
	for _, want := range []string{
		"mode = \"full-access\"", "reasoning = \"low\"", "turn_time = \"5m\"", "network = false", "writable_roots = [\"/srv\"]", "enabled = true", "allow = [\"example.com\"]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, "samplings") {
		t.Error("the removed setting is there")
	}
	var got configuration
	c.Call("config/read", map[string]any{}, &got)
	roots, _ := got.Config["sandbox_workspace_write"].(map[string]any)
	if got.Config["sandbox_mode"] != "danger-full-access" || got.Config["approvals_reviewer"] != "auto_review" || roots["network_access"] != false {
		t.Errorf("%v", got.Config)
	}

	text = content(t, file)
	for _, tc := range []struct {
		name   string
		params map[string]any
		code   string
		says   string // in the message or the next step
	}{
		{"too late", map[string]any{"edits": []any{edit("approval_policy", "never")}, "expectedVersion": before}, "configVersionConflict", "again"},
		{"not allowed", map[string]any{"edits": []any{edit("approval_policy", "perhaps")}}, "configValidationError", "perhaps"},
		{"the second one wrong", map[string]any{"edits": []any{edit("approval_policy", "never"), edit("limits.samplings", -1)}}, "configValidationError", "samplings"},
		{"unknown", map[string]any{"edits": []any{edit("approval.polcy", "never")}}, "configSchemaUnknownKey", "policy"},
		{"unknown to gantry", map[string]any{"edits": []any{edit("otel.exporter", "none")}}, "configSchemaUnknownKey", "otel"},
		{"trust", map[string]any{"edits": []any{edit(`projects."/x".trust_level`, "trusted")}}, "configSchemaUnknownKey", "gantry trust"},
		{"another model's block", map[string]any{"edits": []any{edit("model.nope.reasoning", nil)}}, "configPathNotFound", "nope"},
		{"half a model", map[string]any{"edits": []any{edit("model.nope.reasoning", "low")}}, "configValidationError", "provider"},
		{"an unknown model", map[string]any{"edits": []any{edit("model", "nope")}}, "configValidationError", "nope"},
		{"a setting of a provider", map[string]any{"edits": []any{edit("provider.scripted.api_key", "x")}}, "configSchemaUnknownKey", "gantry.hcl"},
		{"not a path", map[string]any{"edits": []any{edit("a..b", "x")}}, "configValidationError", "empty name"},
		{"a list for a text", map[string]any{"edits": []any{edit("sandbox_mode", []string{"x"})}}, "configValidationError", "mode"},
		{"an unknown member", map[string]any{"edits": []any{edit("sandbox_workspace_write", map[string]any{"network_access": true, "x": 1})}}, "configSchemaUnknownKey", "sandbox_workspace_write.x"},
		{"the project's file", map[string]any{"edits": []any{edit("approval_policy", "never")}, "filePath": filepath.Join(r.Dir, ".gantry", "gantry.hcl")}, "configLayerReadonly", file},
		{"the lock", map[string]any{"edits": []any{edit("approval_policy", "never")}, "filePath": filepath.Join(r.Home, "gantry.lock.hcl")}, "configLayerReadonly", file},
	} {
		got, message, next := code(t, c, "config/batchWrite", tc.params)
		if got != tc.code || !strings.Contains(message+next, tc.says) {
			t.Errorf("%s: %s %q %q", tc.name, got, message, next)
		}
		if now := content(t, file); now != text {
			t.Fatalf("%s: the file was changed:\n%s", tc.name, now)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 && info.Mode().Perm() != 0o644 {
		t.Errorf("%v %v", info, err)
	}
}

// A change without effect says which layer has precedence. A missing file is created.
func TestAppServerConfigOverridden(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	c := r.AppServer("-c", "approval.policy=never")
	greet(t, c)
	var w written
	c.Call("config/value/write", map[string]any{"keyPath": "approval_policy", "value": "untrusted", "mergeStrategy": "replace"}, &w)
	if o := w.OverriddenMetadata; w.Status != "okOverridden" || o == nil || o.OverridingLayer.Name.Type != "sessionFlags" || o.EffectiveValue != "never" ||
		!strings.Contains(o.Message, "approval_policy") {
		t.Errorf("%+v", w)
	}
	c.Close()
	if err := os.Remove(filepath.Join(r.Home, "gantry.hcl")); err != nil {
		t.Fatal(err)
	}
	c = r.AppServer()
	greet(t, c)
	var got configuration
	if c.Call("config/read", map[string]any{"includeLayers": true}, &got); len(got.Layers) != 1 || got.Layers[0].Name.Type != "user" {
		t.Fatalf("%+v", got)
	}
	c.Call("config/value/write", map[string]any{
		"keyPath": "sandbox_mode", "value": "read-only", "mergeStrategy": "replace", "expectedVersion": got.Layers[0].Version,
	}, &w)
	if text := content(t, filepath.Join(r.Home, "gantry.hcl")); w.Status != "ok" || text != "sandbox {\n  mode = \"read-only\"\n}\n" {
		t.Errorf("%+v\n%s", w, text)
	}
}
