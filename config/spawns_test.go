package config_test

import (
	"testing"

	"github.com/gantry-agent/gantry/config"
)

// A plugin's block says what its processes reach, which is part of what the user consents to.
func TestSpawns(t *testing.T) {
	load := func(processes string) (config.Spawns, string) {
		t.Helper()
		root := write(t, map[string]string{"home/gantry.hcl": "network {\n  mode = \"none\"\n}\nplugin \"a\" {\n  source = \"./a\"\n" + processes + "\n}\n"})
		c, ds := config.Load(t.Context(), options(root))
		if ds.HasErrors() {
			t.Fatal(ds)
		}
		b, ok := c.Plugin("a")
		if !ok {
			t.Fatal("there is no plugin")
		}
		return b.Spawns, string(c.Grants(b.Address()))
	}
	none, plain := load("")
	if none.Network != nil || none.MemoryBytes != 0 {
		t.Errorf("without a block: %+v", none)
	}
	const memory = "  processes {\n    memory = \"3GiB\"\n  }\n"
	s, limited := load(memory)
	if s.MemoryBytes != 3<<30 || s.Network != nil {
		t.Errorf("memory: %+v", s)
	}
	s, networked := load("  processes {\n    network {\n      mode  = \"proxy\"\n      allow = [\"**.example.com\"]\n    }\n  }\n")
	if n := s.Network; n == nil || n.Mode != "proxy" || n.Unknown != "ask" || len(n.Allow) != 1 || !n.Allow[0].Match("www.example.com", 443) {
		t.Errorf("network: %+v", s.Network)
	}
	s, denied := load("  processes {\n    network {\n      mode    = \"proxy\"\n      allow   = [\"**.example.com\"]\n      unknown = \"deny\"\n    }\n  }\n")
	if s.Network.Unknown != "deny" {
		t.Errorf("unknown: %+v", s.Network)
	}
	seen := map[string]bool{}
	for _, digest := range []string{plain, limited, networked, denied} {
		if seen[digest] {
			t.Error("a consent covers settings that were not shown")
		}
		seen[digest] = true
	}
}
