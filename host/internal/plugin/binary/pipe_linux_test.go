package binary

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of a program is refused; nothing waits for its writer.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program")
	if err := syscall.Mkfifo(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"open":   func() error { _, err := Open(path, Records{}); return err },
		"digest": func() error { _, err := Digest(path, Records{}); return err },
		"copy":   func() error { _, err := Copies{Dir: t.TempDir()}.Open(path); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if why := Diagnose(path); why == "" {
		t.Error("nothing shows")
	}
}
