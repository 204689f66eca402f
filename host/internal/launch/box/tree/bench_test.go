//go:build linux

package tree_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// big is a tree of 1,000,000 files in 100,000 folders; $GANTRY_BIG_TREE keeps it for the next run.
func big(tb testing.TB) string {
	tb.Helper()
	top := os.Getenv("GANTRY_BIG_TREE")
	if top == "" {
		top = tb.TempDir()
	}
	if err := tree.Grow(top, 100_000, 10); err != nil {
		tb.Fatal(err)
	}
	return top
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTree is what knowing a tree of 1,000,000 files costs: reading it, taking it from its file, and what a command pays.
func BenchmarkTree(b *testing.B) {
	top, cache := big(b), filepath.Join(b.TempDir(), "cache")
	open := func(b *testing.B, o tree.Options) *tree.Tree {
		t, err := tree.Open(top, o)
		if err != nil {
			b.Fatal(err)
		}
		<-t.Ready()
		return t
	}
	b.Run("read", func(b *testing.B) {
		start := cpu()
		for b.Loop() {
			t := open(b, tree.Options{Rules: rules})
			if _, err := t.Settle(); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if s := t.Stats(); !s.Watched || s.Folders < 100_000 {
				b.Fatalf("%+v", s)
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
			_ = t.Close()
			b.StartTimer()
		}
		b.ReportMetric(float64((cpu()-start).Milliseconds())/float64(b.N), "cpu-ms")
	})
	t := open(b, tree.Options{Rules: rules, Cache: cache})
	t.Wait(time.Minute)
	_ = t.Close()
	b.Run("load", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			start := cpu()
			t := open(b, tree.Options{Rules: rules, Cache: cache})
			if _, err := t.Settle(); err != nil { // as if a command ran at once
				b.Fatal(err)
			}
			used += cpu() - start
			b.StopTimer()
			if s := t.Stats(); !s.Loaded || s.Folders < 100_000 {
				b.Fatalf("%+v", s)
			}
			_ = t.Close()
			b.StartTimer()
		}
		b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms")
	})
	for _, walk := range []bool{false, true} {
		b.Run("settle/walk="+strconv.FormatBool(walk), func(b *testing.B) {
			t := open(b, tree.Options{Rules: rules, Walk: walk})
			defer t.Close()
			for b.Loop() {
				if _, err := t.Settle(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
