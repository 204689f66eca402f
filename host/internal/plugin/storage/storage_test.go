package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Measuring follows no symbolic links, and reads no more than it has to.
func TestMeasure(t *testing.T) {
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
	// The hole of a sparse file takes no space.
	if err := os.Truncate(filepath.Join(own, "deep", "b"), 1<<40); err != nil {
		t.Fatal(err)
	}
	bytes, entries, err := measure([]string{own, filepath.Join(own, "missing")}, 1<<30)
	if err != nil || bytes < 2<<20 || bytes > 3<<20 || entries != 5 {
		t.Errorf("%d bytes in %d entries, %v", bytes, entries, err)
	}
	if bytes, entries, err := measure([]string{own}, 1000); err != nil || bytes <= 1000 || entries > 4 {
		t.Errorf("measured %d bytes in %d entries with a limit of 1000 bytes", bytes, entries)
	}
}

// A plugin can't hide files in a folder that its user may not read.
func TestMeasureUnreadableFolders(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads every folder")
	}
	for _, name := range []string{".", "deep"} {
		own := filepath.Join(t.TempDir(), "own")
		if err := os.MkdirAll(filepath.Join(own, "deep", "er"), 0o700); err != nil {
			t.Fatal(err)
		}
		unreadable := filepath.Join(own, name)
		if err := os.Chmod(unreadable, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(unreadable, 0o700)
		if _, _, err := measure([]string{own}, 1<<30); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
