package codemode_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/sdk/codemode"
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

// A script that takes memory until its limit.
func BenchmarkMemoryBomb(b *testing.B) {
	e := &codemode.Executor{Command: []string{binary}}
	for b.Loop() {
		if out := e.Execute(b.Context(), "const a = []; for (;;) a.push(new Array(1000).fill(0))", nil); out.Error == "" {
			b.Fatal("the limit was not reached")
		}
	}
}
