package grants

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// A plugin's own settings replace those of commands for what is started for it, but for the network of what has no sandbox.
func TestForPlugin(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	text := "network {\n  mode = \"full\"\n}\nlimits {\n  memory = \"1GiB\"\n}\n"
	for label, mode := range map[string]string{"a": "proxy", "b": "none"} {
		text += "plugin \"" + label + "\" {\n  source = \"builtin/shell\"\n  processes {\n    memory = \"2GiB\"\n    network {\n      mode = \"" + mode + "\"\n    }\n  }\n}\n"
	}
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, ds := config.Load(t.Context(), config.Options{Home: home, Dir: t.TempDir(), System: "-"})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	for _, tc := range []struct {
		mode, plugin     string
		network, proxied bool
		memory           int64
	}{
		{box.WorkspaceWrite, "other", true, false, 1 << 30},
		{box.WorkspaceWrite, "a", false, true, 2 << 30},
		{box.ReadOnly, "b", false, false, 2 << 30},
		{launch.FullAccess, "a", true, false, 2 << 30},
	} {
		g := ForPlugin(c, For(c, tc.mode, "/", ""), tc.plugin)
		if g.Network != tc.network || g.Proxied != tc.proxied || g.Limits.MemoryBytes != tc.memory {
			t.Errorf("%+v: %+v", tc, g)
		}
	}
}
