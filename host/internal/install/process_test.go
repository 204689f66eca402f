package install

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// What a user has agreed to by an edit is accepted as it was shown. The configuration can change before it is read again; what is there
// then is asked about.
func TestAcceptEditedAcceptsWhatWasShown(t *testing.T) {
	home := t.TempDir()
	const block = "plugin \"mcp\" {\n  source = \"builtin/mcp\"\n}\n"
	file := filepath.Join(home, "gantry.hcl")
	put := func(path, text string, perm os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), perm); err != nil {
			t.Fatal(err)
		}
	}
	put(file, block, 0o600)
	program := filepath.Join(home, "gantry-tool-mcp")
	put(program, "#!/bin/sh\nexit 1\n", 0o755) // it is never started: its manifest is known
	hash, err := lock.HashFile(program)
	if err != nil {
		t.Fatal(err)
	}
	sum := hash.Hex()
	m := &contract.Manifest{
		Name: "mcp", Version: "1.0.0", Kind: contract.KindTool, Capabilities: []string{"spawn"},
		Config: contract.ConfigBlock{Blocks: []contract.ConfigNestedBlock{{Name: "server", Labels: []string{"name"}, Process: true}}},
	}
	cache := filepath.Join(home, "cache", "manifests")
	if err := manifest.NewCache(cache, "0.0.0").Put(manifest.Program(sum, nil, nil, binary.Records{}), m); err != nil {
		t.Fatal(err)
	}
	load := func(ctx context.Context) (*config.Config, error) {
		cfg, ds := config.Load(ctx, config.Options{Home: home, Dir: home, System: "-", LookupEnv: func(string) (string, bool) { return "", false }})
		return cfg, ds.Err()
	}
	front := &page{}
	open := func() (*Programs, *config.PluginBlock) {
		t.Helper()
		cfg, err := load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in := Installation{
			Home: home, Bin: home, Dir: home, Version: "0.0.0", Builtins: map[string]string{"gantry-tool-mcp": sum}, Logger: hclog.NewNullLogger(), Front: front, Load: load,
		}
		p, err := in.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		b, err := p.Block("mcp")
		if err != nil {
			t.Fatal(err)
		}
		return p, b
	}
	edits := []contract.ConfigEdit{{Path: []string{"server", "a"}, Value: json.RawMessage(`{"command":"/bin/echo","args":["shown"]}`)}}
	p, b := open()
	before, err := p.Consents(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	_, agreed, err := p.Configure(t.Context(), "mcp", false, edits, func(_, diff string) bool { return strings.Contains(diff, "shown") })
	if err != nil || len(agreed) != 1 {
		t.Fatalf("%v, %d consents", err, len(agreed))
	}
	shown, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	put(file, strings.Replace(string(shown), `"shown"`, `"another"`, 1), 0o600)
	p, b = open()
	if err := p.AcceptEdited(t.Context(), b, before, agreed, edits); err == nil || !strings.Contains(err.Error(), "was not accepted") {
		t.Errorf("another command: %v", err)
	}
	if len(front.asked) != 1 || !strings.Contains(front.asked[0], "another") {
		t.Errorf("asked: %q", front.asked)
	}
	put(file, string(shown), 0o600)
	p, b = open()
	if err := p.AcceptEdited(t.Context(), b, before, agreed, edits); err != nil || len(front.asked) != 1 {
		t.Errorf("what was shown: %v, asked: %q", err, front.asked)
	}

	// A text that replaces the edit before it is read again is neither agreed to nor undone.
	other := block + "# of somebody else\n"
	again := []contract.ConfigEdit{{Path: []string{"server", "b"}, Value: json.RawMessage(`{"command":"/bin/echo"}`)}}
	p, _ = open()
	p.Load = func(ctx context.Context) (*config.Config, error) {
		put(file, other, 0o600)
		return load(ctx)
	}
	_, agreed, err = p.Configure(t.Context(), "mcp", false, again, func(string, string) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "was changed meanwhile") || agreed != nil {
		t.Errorf("another text: %v, %v", err, agreed)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != other {
		t.Errorf("gantry.hcl is %q, %v", text, err)
	}
}
