//go:build linux

package launch_test

import (
	"os/exec"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// The price of the launcher: `true`, from the request to its exit status.
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

// To the point where the process runs.
func BenchmarkSpawn(b *testing.B) {
	l := newLauncher(b)
	for b.Loop() {
		p := spawn(b, l, command("true"))
		b.StopTimer()
		<-p.Gone()
		p.Forget()
		b.StartTimer()
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
