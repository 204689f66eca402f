//go:build linux

package launch_test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// The cost of gantry-launch: `true`, from the request to its exit status.
func BenchmarkDirect(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLauncher(b *testing.B) { benchmark(b, command("true")) }

func BenchmarkLauncherTerminal(b *testing.B) {
	s := command("true")
	s.Terminal = &launch.Size{}
	benchmark(b, s)
}

func BenchmarkLauncherWithLimits(b *testing.B) {
	s := command("true")
	s.Grant.Limits.NoCore = true
	benchmark(b, s)
}

func benchmark(b *testing.B, s launch.Spec) {
	l := newLauncher(b)
	for b.Loop() {
		p := spawn(b, l, s)
		if exit := wait(b, p); exit.Code != 0 {
			b.Fatal(exit)
		}
		<-p.Gone()
		p.Forget()
	}
}

// The time until the process runs: with the spare gantry-launch, which is ready if the model has to think between two calls, and without,
// as for the first call and for concurrent ones.
func BenchmarkSpawn(b *testing.B) {
	for _, spare := range []bool{true, false} {
		b.Run(fmt.Sprintf("spare=%v", spare), func(b *testing.B) {
			l := newLauncher(b)
			var took []time.Duration
			for b.Loop() {
				if !spare {
					l.EndSpare()
				}
				start := time.Now()
				p := spawn(b, l, command("true"))
				took = append(took, time.Since(start))
				<-p.Gone()
				p.Forget()
				l.Spare()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
			b.ReportMetric(float64(took[len(took)/10].Microseconds()), "p10-µs")
		})
	}
}

func BenchmarkSpawnParallel(b *testing.B) {
	l := newLauncher(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p := spawn(b, l, command("true"))
			<-p.Gone()
			p.Forget()
		}
	})
}

func BenchmarkSignal(b *testing.B) {
	l := newLauncher(b)
	p := spawn(b, l, command("sleep", "1000"))
	for b.Loop() {
		if err := p.Signal(0, false); err != nil {
			b.Fatal(err)
		}
	}
}
