//go:build linux

package box_test

import (
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
