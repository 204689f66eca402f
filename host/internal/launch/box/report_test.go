//go:build linux

package box_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// A report names what is read-only because of settings, and the folders that are not watched.
func TestReport(t *testing.T) {
	t.Parallel()
	w := configured(t, "[core]\n\thooksPath = .githooks\n", "", "$WS/scripts")
	w.write(".githooks/pre-commit", "")
	w.write("scripts/tool", "")
	w.write("lib/.git/HEAD", "ref: refs/heads/main\n")
	cfg := box.Config{Home: w.home, UserHome: filepath.Join(filepath.Dir(w.ws), "userhome"), Environ: []string{"PATH=" + w.ws + "/scripts:/usr/bin"}}
	watched, walked := box.New(cfg), box.New(cfg).Walk()
	defer watched.Close()
	defer walked.Close()
	r := watched.Report(w.spec("").Grant)
	if r.Missing != nil || len(r.Held) != 2 || r.Repositories != 2 || len(r.Walked) > 0 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []struct{ path, why string }{{".githooks", "core.hookspath in " + w.ws + "/.git/config"}, {"scripts", "because of PATH"}} {
		if h := r.Held[i]; h.Path != filepath.Join(w.ws, want.path) || !strings.Contains(h.Why, want.why) {
			t.Errorf("%+v, want %+v", h, want)
		}
	}
	if r := walked.Report(w.spec("").Grant); len(r.Walked) != 1 || r.Walked[0].Root != w.ws || r.Walked[0].Why == "" {
		t.Errorf("%+v", r.Walked)
	}
}
