package plugin_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// What a plugin's folders hold is measured without following it elsewhere, and without reading more than is needed.
func TestHeld(t *testing.T) {
	t.Parallel()
	own, other := t.TempDir(), t.TempDir()
	for path, n := range map[string]int{filepath.Join(own, "a"): 1 << 20, filepath.Join(own, "deep", "b"): 1 << 20, filepath.Join(other, "c"): 8 << 20} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(own, "link")); err != nil {
		t.Fatal(err)
	}
	// A file with a hole takes what it holds.
	if err := os.Truncate(filepath.Join(own, "deep", "b"), 1<<40); err != nil {
		t.Fatal(err)
	}
	bytes, entries, err := plugin.Held([]string{own, filepath.Join(own, "missing")}, 1<<30)
	if err != nil || bytes < 2<<20 || bytes > 3<<20 || entries != 5 {
		t.Errorf("%d bytes in %d entries, %v", bytes, entries, err)
	}
	if bytes, entries, err := plugin.Held([]string{own}, 1000); err != nil || bytes <= 1000 || entries > 4 {
		t.Errorf("%d bytes in %d entries, though 1000 were enough to know", bytes, entries)
	}
}

// A folder that its owner may not read hides nothing, and is removed all the same.
func TestHeldInUnreadableFolders(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads every folder")
	}
	for _, name := range []string{".", "deep"} {
		own := filepath.Join(t.TempDir(), "own")
		if err := os.MkdirAll(filepath.Join(own, "deep", "er"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(own, name), 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := plugin.Held([]string{own}, 1<<30); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: error %v", name, err)
		}
		if name == "." { // gantry's own folder around it is what is removed
			own = filepath.Dir(own)
		}
		if err := plugin.RemoveAll(own); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}
