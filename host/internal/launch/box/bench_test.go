//go:build linux

package box_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// BenchmarkTrue measures `true` from Spawn to the end of its process tree: with full access, in a sandbox prepared while idle, in
// one that was begun just before because a command was expected, and in an unprepared one, as for a concurrent command.
func BenchmarkTrue(b *testing.B) {
	for _, bc := range []struct {
		name, mode       string
		network, proxied bool
		ahead            time.Duration
	}{
		{"full-access", launch.FullAccess, true, false, 0},
		{"workspace-write", box.WorkspaceWrite, false, false, time.Minute},
		{"workspace-write/expected", box.WorkspaceWrite, false, false, time.Minute},
		{"workspace-write/first", box.WorkspaceWrite, false, false, 0},
		{"network", box.WorkspaceWrite, true, false, time.Minute},
		{"network/first", box.WorkspaceWrite, true, false, 0},
		{"proxy", box.WorkspaceWrite, false, true, time.Minute},
		{"proxy/first", box.WorkspaceWrite, false, true, 0},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := newWorldWith(b, launch.Config{PreparedTime: bc.ahead, Proxy: nothing})
			w.mode, w.network, w.proxied = bc.mode, bc.network, bc.proxied
			spec := w.spec("true")
			spec.Argv = []string{"true"}
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				expected := strings.HasSuffix(bc.name, "/expected")
				if len(took) > 0 && w.launcher.Ready() == 0 && bc.ahead > 0 && !expected {
					b.Fatal("no box was made ahead")
				}
				b.StartTimer()
				start := time.Now()
				if expected {
					w.expect()
				}
				p, err := w.launcher.Spawn(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				if expected {
					w.launcher.DropPrepared("thread") // none is made when it ends
				}
				if exit, err := p.Wait(b.Context()); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				<-p.Gone()
				took = append(took, time.Since(start))
				if err := w.launcher.EndCall(b.Context(), spec.Owner); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// nothing is a proxy that allows no connection.
func nothing(ctx context.Context, _ *launch.Process, _ net.Listener) { <-ctx.Done() }
