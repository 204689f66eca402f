//go:build linux

package plugin_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// lean builds a minimal plugin in the same way as a user.
func lean(b *testing.B) plugin.Spec {
	b.Helper()
	path := filepath.Join(b.TempDir(), "lean")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=grpcnotrace", "-o", path, "./testdata/lean")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	<-time.After(3 * time.Second) // the digest of a file that has just been written is not recorded
	return plugin.Spec{Label: "lean", Path: path}
}

// BenchmarkStart measures the time from the start to the response to the first call.
func BenchmarkStart(b *testing.B) {
	s := lean(b)
	for name, c := range map[string]struct {
		scan      bool
		transport string
	}{
		"namespace/peercred": {false, "peercred"},
		"namespace/mtls":     {false, "mtls"},
		"scan/peercred":      {true, "peercred"},
		"scan/mtls":          {true, "mtls"},
	} {
		b.Run(name, func(b *testing.B) {
			h := build(b, func(c2 *plugin.Config) { c2.NoNamespaces = c.scan; c2.Logger = nil })
			s.Transport = c.transport
			p := h.add(s)
			var took plugin.StartTimes
			var stop time.Duration
			n := 0
			for b.Loop() {
				l := acquire(b, p)
				must(b, l, "echo", "1")
				b.StopTimer()
				st := p.Status().Start
				took.Verify += st.Verify
				took.Execute += st.Execute
				took.Handshake += st.Handshake
				took.Connect += st.Connect
				took.Configure += st.Configure
				n++
				l.Release()
				began := time.Now()
				if err := p.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
				stop += time.Since(began)
				b.StartTimer()
			}
			report := func(name string, d time.Duration) {
				b.ReportMetric(float64(d.Microseconds())/1000/float64(n), name)
			}
			report("verify-ms", took.Verify)
			report("execute-ms", took.Execute)
			report("handshake-ms", took.Handshake)
			report("describe-ms", took.Connect)
			report("configure-ms", took.Configure)
			report("stop-ms", stop)
		})
	}
}

// BenchmarkStartFive starts five plugins concurrently.
func BenchmarkStartFive(b *testing.B) {
	s := lean(b)
	h := build(b, func(c *plugin.Config) { c.Logger = nil })
	var slots []*plugin.Slot
	for _, label := range strings.Fields("a b c d e") {
		s.Label = label
		slots = append(slots, h.add(s))
	}
	for b.Loop() {
		var wg sync.WaitGroup
		for _, p := range slots {
			wg.Go(func() {
				l, err := p.Acquire(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				l.Release()
			})
		}
		wg.Wait()
		b.StopTimer()
		for _, p := range slots {
			wg.Go(func() { _ = p.Stop(b.Context()) })
		}
		wg.Wait()
		b.StartTimer()
	}
}

// BenchmarkCall measures a unary call, including acquiring and releasing the lease.
func BenchmarkCall(b *testing.B) {
	s := lean(b)
	for name, input := range map[string]string{"16B": "0123456789abcdef", "1KiB": strings.Repeat("x", 1024), "64KiB": strings.Repeat("x", 64<<10)} {
		b.Run(name, func(b *testing.B) {
			p := build(b, func(c *plugin.Config) { c.Logger = nil }).add(s)
			acquire(b, p).Release()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				l, err := p.Acquire(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := command(b.Context(), l, "echo", input); err != nil {
					b.Fatal(err)
				}
				l.Release()
			}
		})
	}
}

// BenchmarkLease measures the overhead of supervision.
func BenchmarkLease(b *testing.B) {
	p := build(b).add(spec(b, "serve"))
	acquire(b, p).Release()
	for b.Loop() {
		l, err := p.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}
