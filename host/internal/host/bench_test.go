package host_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// BenchmarkDeltas is the host's part of an answer's deltas, from the provider's process to lines of JSON: time, and what it
// allocates.
func BenchmarkDeltas(b *testing.B) {
	const deltas = 50_000
	opts := optionsWith(b, "bench", `
[[step]]
times = -1
do = [{ text = "`+strings.Repeat(" lamp", deltas)+`", chunk = 5 }]
`)
	h, err := host.New(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	}()
	th, err := h.StartThread(b.Context(), host.Params{Cwd: b.TempDir(), Source: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	sub, err := th.Subscribe(b.Context(), thread.Lossless)
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Close()
	var line []byte
	seen := 0
	var before, after runtime.MemStats
	for b.Loop() {
		if _, err := th.Submit(b.Context(), thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: "go"}}}}); err != nil {
			b.Fatal(err)
		}
		for ended := false; !ended; {
			e, err := sub.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if line, err = e.AppendJSON(line[:0]); err != nil {
				b.Fatal(err)
			}
			switch body := e.Body.(type) {
			case event.ItemDelta:
				switch body.Offset {
				case 5:
					runtime.ReadMemStats(&before)
				case 5 * (deltas - 1):
					runtime.ReadMemStats(&after)
				}
				seen++
			case event.TurnEnded:
				ended = true
			}
		}
	}
	if seen != b.N*deltas {
		b.Fatalf("%d deltas, want %d", seen, b.N*deltas)
	}
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/deltas, "allocs/delta")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/deltas, "B/delta")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seen), "ns/delta")
	b.ReportMetric(0, "ns/op")
}
