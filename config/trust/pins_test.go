package trust

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHooks(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	s := OpenHooks(home)
	if hs, err := s.List(); err != nil || len(hs) != 0 {
		t.Errorf("List = %v, %v before anybody was asked", hs, err)
	}
	if err := s.Add(t.Context(), map[string]string{"b": "h1:1", "a": "h1:2"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), map[string]string{"b": "h1:3"}); err != nil {
		t.Fatal(err)
	}
	hs, err := s.List()
	if err != nil || len(hs) != 2 || hs[0].Key != "a" || hs[1].Digest != "h1:3" || hs[0].At.IsZero() {
		t.Errorf("List = %v, %v", hs, err)
	}
	if info, err := os.Stat(filepath.Join(home, "trusted-hooks.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file mode = %v, %v, want 0600", info, err)
	}
	if n, err := s.Remove(t.Context(), "b", "c"); err != nil || n != 1 {
		t.Errorf("Remove = %v, %v", n, err)
	}
	for _, text := range []string{"{", `{"version":2,"hooks":[]}`} {
		if err := os.WriteFile(filepath.Join(home, "trusted-hooks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(); err == nil {
			t.Errorf("List of %q = nil error, want one", text)
		}
		if err := s.Add(t.Context(), map[string]string{"a": "x"}); err == nil {
			t.Errorf("Add to %q = nil, want an error", text)
		}
	}
}

// Hooks and processes are separate lists: a key of one means nothing in the other.
func TestProcesses(t *testing.T) {
	home := t.TempDir()
	s := OpenProcesses(home)
	if err := s.Add(t.Context(), map[string]string{"mcp.server.a": "d1:1 d1:2"}); err != nil {
		t.Fatal(err)
	}
	ps, err := s.List()
	if err != nil || len(ps) != 1 || ps[0].Key != "mcp.server.a" || ps[0].Digest != "d1:1 d1:2" {
		t.Errorf("List = %v, %v", ps, err)
	}
	if hs, err := OpenHooks(home).List(); err != nil || len(hs) != 0 {
		t.Errorf("hooks = %v, %v", hs, err)
	}
	if n, err := s.Remove(t.Context(), "mcp.server.a"); err != nil || n != 1 {
		t.Errorf("Remove = %v, %v", n, err)
	}
	if ps, err := s.List(); err != nil || len(ps) != 0 {
		t.Errorf("after Remove: %v, %v", ps, err)
	}
}
