package console

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// Each workspace has the configuration of its folder, with the flags of the command line and its own overrides above them.
func TestConfigurationOfAWorkspace(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	text := `
approval {
  policy = "on-request"
}
profile "careful" {
  approval {
    policy = "untrusted"
  }
}
`
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &Env{Stderr: io.Discard, Dir: dir, Environ: []string{"GANTRY_SYSTEM_CONFIG=-"}}
	a.Flags.Home, a.Flags.Sets = home, []string{"sandbox.mode=read-only"}
	warned := 0
	h, err := a.OpenHub(t.Context(), HubOptions{OnWarnings: func(hub.Workspace, diag.Diagnostics) error { warned++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, test := range map[string]struct {
		w             hub.Workspace
		approval, box string
		writable      string
	}{
		"plain":    {hub.Workspace{}, "on-request", "read-only", ""},
		"setting":  {hub.Workspace{Sets: []string{"approval.policy=never", "sandbox.mode=full-access"}}, "never", "full-access", ""},
		"profile":  {hub.Workspace{Profile: "careful"}, "untrusted", "read-only", ""},
		"writable": {hub.Workspace{WritableRoots: []string{"/x"}}, "on-request", "read-only", "/x"},
	} {
		test.w.Dir = dir
		cfg, err := h.Configuration(t.Context(), test.w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if cfg.Approval.Policy != test.approval || cfg.Sandbox.Mode != test.box || slices.Contains(cfg.Sandbox.WritableRoots, "/x") != (test.writable != "") {
			t.Errorf("%s: %q, %q, %q", name, cfg.Approval.Policy, cfg.Sandbox.Mode, cfg.Sandbox.WritableRoots)
		}
	}
	if warned != 4 {
		t.Errorf("told about the warnings of %d configurations", warned)
	}
	if _, err := h.Configuration(t.Context(), hub.Workspace{Dir: dir, Sets: []string{"approval.policy=perhaps"}}); err == nil || !strings.Contains(err.Error(), "perhaps") {
		t.Errorf("invalid setting: %v", err)
	}
	if _, err := h.Configuration(t.Context(), hub.Workspace{Dir: dir, Profile: "carefull"}); err == nil || !strings.Contains(err.Error(), "careful") {
		t.Errorf("unknown profile: %v", err)
	}
}
