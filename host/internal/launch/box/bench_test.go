//go:build linux

package box_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// BenchmarkTrue is the way of `true` from Spawn to its end: with full access, in a box, and in a box with the network.
func BenchmarkTrue(b *testing.B) {
	for _, bc := range []struct {
		name, mode string
		network    bool
	}{
		{"full-access", launch.FullAccess, true}, {"workspace-write", box.WorkspaceWrite, false}, {"network", box.WorkspaceWrite, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := newWorld(b)
			w.mode, w.network = bc.mode, bc.network
			spec := w.spec("true")
			spec.Argv = []string{"true"}
			for b.Loop() {
				p, err := w.launcher.Spawn(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				if exit, err := p.Wait(b.Context()); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				<-p.Gone()
			}
		})
	}
}

// BenchmarkLook is what looking for repositories and settings below the first level costs a process in a box: in 10,000
// folders of which none has changed.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 100 {
		for j := range 100 {
			if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i), strconv.Itoa(j)), 0o755); err != nil {
				b.Fatal(err)
			}
		}
	}
	var w box.Walker
	w.Walk(dir)
	for b.Loop() {
		if w.Walk(dir) < 10_000 {
			b.Fatal("not all folders were looked through")
		}
	}
}
