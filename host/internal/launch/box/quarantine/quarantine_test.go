//go:build linux

package quarantine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
)

// A path may be longer than the kernel accepts in one call.
func TestLongPathIsMovedAside(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	at, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 200)
	for range 25 {
		if err := at.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		at.Close()
		at = next
	}
	defer at.Close()
	if err := at.Mkdir(".codex", 0o755); err != nil {
		t.Fatal(err)
	}
	path := strings.Repeat(name+"/", 25) + ".codex"
	m, err := moveAside(autorun.File{Root: top, Path: path, Kind: autorun.KindAgentSettings})
	if err != nil || m == nil || m.To != filepath.Join(top, path)+".quarantined" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := at.Lstat(".codex.quarantined"); err != nil {
		t.Error(err)
	}
	if _, err := at.Lstat(".codex"); err == nil {
		t.Error("it is there")
	}
}
