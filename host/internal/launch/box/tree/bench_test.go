//go:build linux

package tree_test

import (
	"errors"
	"io/fs"
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

// BenchmarkLinks is what a tree of 100,000 files in 10,000 folders costs that a package manager has linked from a store, which lies
// elsewhere or in the tree, beside one of files of its own.
func BenchmarkLinks(b *testing.B) {
	for _, kind := range []string{"none", "store elsewhere", "store inside"} {
		b.Run(kind, func(b *testing.B) {
			top := b.TempDir()
			store := filepath.Join(top, "store")
			if kind == "store elsewhere" {
				store = b.TempDir()
			}
			if err := tree.Grow(filepath.Join(top, "modules"), 10_000, 10); err != nil {
				b.Fatal(err)
			}
			if kind != "none" {
				link(b, filepath.Join(top, "modules"), store)
			}
			for b.Loop() {
				x, err := tree.Open(top, tree.Options{Rules: rules})
				if err != nil {
					b.Fatal(err)
				}
				<-x.Ready()
				b.StopTimer()
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
				_ = x.Close()
				b.StartTimer()
			}
		})
	}
}

// link gives each file below a folder a name in a store.
func link(b *testing.B, dir, store string) {
	n := 0
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		n++
		to := filepath.Join(store, strconv.Itoa(n%256), strconv.Itoa(n))
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Link(p, to))
	})
	if err != nil {
		b.Fatal(err)
	}
}
