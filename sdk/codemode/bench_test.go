package codemode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// From the start of the process to the result of the smallest script.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if out := executor().Execute(b.Context(), "1 + 1", nil); out.Error != "" {
			b.Fatal(out.Error)
		}
	}
}

// A script's call of a function, one after the other.
func BenchmarkCall(b *testing.B) {
	f := function("f", func(context.Context, []json.RawMessage) (any, error) { return 1, nil })
	p := []codemode.Provider{{Functions: []codemode.Function{f}}}
	for b.Loop() {
		if out := executor().Execute(b.Context(), "for (let i = 0; i < 1000; i++) await codemode.f({})", p); out.Error != "" {
			b.Fatal(out.Error)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/call")
}

// BenchmarkPrepared is BenchmarkStart in a process that was started before, and the memory of one that waits.
func BenchmarkPrepared(b *testing.B) {
	var idle int64
	for b.Loop() {
		b.StopTimer()
		p := codemode.Prepare([]string{binary}, codemode.Limits{})
		waitUntilLocked(b, p)
		idle = max(idle, private(b, p.PID()))
		b.StartTimer()
		if d := p.Run(b.Context(), codemode.Script{Code: "1 + 1"}, &recorder{}).Wait(); d.Error != nil {
			b.Fatal(d.Error)
		}
	}
	b.ReportMetric(float64(idle)/(1<<20), "MiB-private")
}

// private returns the memory of a process that it does not share with others.
func private(b *testing.B, pid int) (sum int64) {
	rollup, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "smaps_rollup"))
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[0], "Private_") {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

// Scripts that take memory until their limit, each in another way.
func BenchmarkMemoryBomb(b *testing.B) {
	for name, code := range map[string]string{
		"arrays":       "const a = []; for (;;) a.push(new Array(1000).fill(0))",
		"strings":      "const a = []; for (let i = 0; ; i++) a.push('x'.repeat(1000) + i)",
		"typed-arrays": "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))",
		"recursion":    "(function f(a) { f([...a, 1]) })([])",
		"promises":     "const a = []; for (;;) a.push(new Promise(() => {}))",
	} {
		b.Run(name, func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				s := codemode.Start(b.Context(), []string{binary}, codemode.Script{Code: code}, &recorder{})
				if d := s.Wait(); d.Error == nil || d.Error.Cause != frame.Memory {
					b.Fatalf("%+v", d)
				}
				cpu += s.ProcessorTime()
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "ms-of-processor")
		})
	}
}
