package socketdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBasesAreInOrderOfPreference(t *testing.T) {
	env := func(k string) (string, bool) { return "/run/user/1", k == "XDG_RUNTIME_DIR" }
	got := Bases("/home/u/.gantry/run", env)
	if got[0] != "/home/u/.gantry/run" || got[1] != "/run/user/1/gantry" || !strings.HasPrefix(got[len(got)-1], "/tmp/gantry-") {
		t.Errorf("bases = %q", got)
	}
	if maxBase < len("/run/user/4294967294/gantry") {
		t.Errorf("a user's runtime folder doesn't fit into %d bytes", maxBase)
	}
}

func TestUnreadableFoldersAreRemoved(t *testing.T) {
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
		if name == "." { // removed with the folder that contains it, which is gantry's
			own = filepath.Dir(own)
		}
		if err := removeAll(own); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s still exists: %v", name, err)
		}
	}
}
