package runsocket

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func TestPath(t *testing.T) {
	t.Parallel()
	thread := event.NewThreadID()
	home, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	path, err := Path(home, thread)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, "run", string(thread)+".sock"); path != want {
		t.Errorf("%s, want %s", path, want)
	}

	// Every length of home leads to a path that a socket can have, the same one each time.
	for n := range 200 {
		long := filepath.Join(home, strings.Repeat("x", n+1))
		if err := os.MkdirAll(long, 0o700); err != nil {
			t.Fatal(err)
		}
		path, err := Path(long, thread)
		if err != nil {
			t.Fatalf("a home of %d bytes: %v", len(long), err)
		}
		again, err := Path(long, thread)
		if err != nil || again != path {
			t.Errorf("a home of %d bytes: %s, then %s, %v", len(long), path, again, err)
		}
		if len(path) > maxPath() {
			t.Errorf("a home of %d bytes: a path of %d", len(long), len(path))
		}
		info, err := os.Stat(filepath.Dir(path))
		if err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
			t.Errorf("its folder: %v, %v", info.Mode(), err)
		}
		if !strings.HasPrefix(path, long) {
			t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
		}
		if n%20 != 0 {
			continue
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Errorf("a home of %d bytes: %v", len(long), err)
			continue
		}
		_ = l.Close()
	}
}

func TestPathRefusesAFolderThatIsNotPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no such folder")
	}
	home := filepath.Join(t.TempDir(), strings.Repeat("y", 150))
	path, err := Path(home, "t")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Path(home, "t"); err == nil || !strings.Contains(err.Error(), "GANTRY_HOME") {
		t.Errorf("a folder that others can enter: %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Path(home, "t"); err == nil {
		t.Error("a link is accepted")
	}
}
