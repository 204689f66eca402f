//go:build linux

package box_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// A command that moves folders while another one's sandbox is planned can't hide anything.
func TestMovingFoldersHidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("ws/sub/deep/b.env", "ws/sub/deep/key", "ws/plain", "userhome/.ssh/")
	w.link("ws/sub/deep/key", "userhome/.ssh/id")
	w.change = func(g *launch.Grant) { g.DenyRead = []string{w.ws + "/**/*.env"} }
	mover, err := w.spawn(`echo ready; while :; do mv -T sub sub2; rm -rf sub; mv -T sub2 sub; done 2>/dev/null`)
	if err != nil {
		t.Fatal(err)
	}
	<-output(t, mover)
	for range 10 {
		p, err := w.spawn(`n=0; while [ $n -lt 30 ]; do cat sub/deep/b.env sub2/deep/b.env sub/deep/key sub2/deep/key; n=$((n+1)); done 2>/dev/null`)
		if err != nil {
			continue // it was noticed
		}
		for line := range output(t, p) {
			if strings.Contains(line, "SECRET") {
				t.Fatal("what is denied was read")
			}
		}
	}
}

// meddler acts between the planning of a sandbox and its creation.
type meddler struct {
	*box.Sandbox
	do func()
}

func (m meddler) Confine(ctx context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (func(), error) {
	release, err := m.Sandbox.Confine(ctx, g, readOnly, c)
	m.do()
	return release, err
}

func TestCoversAreInPlace(t *testing.T) {
	t.Parallel()
	const readIt = `cat sub/deep/b.env sub/other/b.env sub2/deep/b.env keys/k; true`
	const writeIt = `for f in sub/deep/b.env sub/other/b.env sub2/deep/b.env; do [ -e $f ] && echo evil >> $f; done; true`
	for _, kind := range []struct {
		name    string
		prepare func(w *world)
		do      string
	}{
		// Only what is under one name is denied, so that the others can come into its place.
		{"denied", func(w *world) {
			w.change = func(g *launch.Grant) { g.DenyRead = []string{w.ws + "/s*/**/*.env", w.ws + "/keys"} }
		}, readIt},
		{"a key by another name", func(w *world) {
			w.make("userhome/.ssh/")
			w.link("ws/sub/deep/b.env", "userhome/.ssh/id")
		}, readIt},
		{"kept", func(w *world) {
			w.change = func(g *launch.Grant) { g.DenyWrite = []string{w.ws + "/s*/**/*.env"} }
		}, writeIt},
		{"a name outside", func(w *world) { w.link("ws/sub/deep/b.env", "out/known") }, writeIt},
	} {
		for name, moves := range map[string][][2]string{
			"nothing":                     nil,
			"the folder":                  {{"sub/deep", "sub/other"}},
			"a folder above":              {{"sub", "sub2"}},
			"another came into its place": {{"sub/deep", "sub/other"}, {"decoy", "sub/deep"}},
			"another of a folder above":   {{"sub", "sub2"}, {"decoys", "sub"}},
			"the file":                    {{"sub/deep/b.env", "sub/deep/c"}, {"decoy/b.env", "sub/deep/b.env"}},
		} {
			t.Run(kind.name+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.make("ws/sub/deep/b.env", "ws/decoy/b.env", "ws/decoys/deep/b.env", "ws/keys/k")
				kind.prepare(w)
				file, err := os.Open(filepath.Join(w.ws, "sub/deep/b.env")) // wherever it goes
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				l, err := launch.New(launch.Config{LauncherPath: launcherPath, Confiners: []launch.Confiner{meddler{box.New(box.Config{Home: w.home, UserHome: filepath.Join(filepath.Dir(w.ws), "userhome")}), func() {
					for _, m := range moves {
						if err := os.Rename(filepath.Join(w.ws, m[0]), filepath.Join(w.ws, m[1])); err != nil {
							t.Error(err)
						}
					}
				}}}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := l.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				w.launcher = l
				p, err := w.spawn(kind.do)
				if err == nil {
					for line := range output(t, p) {
						if strings.Contains(line, "SECRET") && !strings.Contains(line, "SECRET ws/keys/k") {
							t.Errorf("what is denied was read: %s", line)
						}
					}
				}
				if b, err := io.ReadAll(file); err != nil || strings.Contains(string(b), "evil") {
					t.Errorf("what is kept was written: %q, %v", b, err)
				}
				e, stopped := errors.AsType[*launch.StartError](err)
				switch {
				case len(moves) == 0 && err != nil:
					t.Error(err)
				case strings.HasPrefix(name, "another") && err != nil && !strings.Contains(e.Message, "was moved meanwhile"):
					t.Errorf("stopped for another reason: %v", err)
				case name == "the file": // nothing that is in a box with it can do that
				case len(moves) > 0 && (!stopped || e.Op != "confine"):
					t.Errorf("the command was started, or not for that reason: %v", err)
				}
			})
		}
	}
}
