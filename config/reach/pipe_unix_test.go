//go:build unix

package reach

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in the place of a script does not block.
func TestPipeIsNotRead(t *testing.T) {
	dir := tree(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "guard.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Query{Dir: dir, Listed: []string{"guard.sh"}, Complete: true}.Line("sh guard.sh")
	if _, err := s.Digest(); err == nil {
		t.Error("a pipe has a digest")
	}
}
