package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/hub"
)

// BenchmarkStart is what a new thread costs beside others, and what an idle one takes of the process.
func BenchmarkStart(b *testing.B) {
	cfg := configuration(newHome(b, recite), binaries(b))
	cfg.MaxIdle = 1 << 20
	h := open(b, cfg)
	dir := b.TempDir()
	start(b, h, hub.StartParams{Workspace: hub.Workspace{Dir: dir}}) // opens the host
	fds, rss := descriptors(b), resident(b)
	n := 0
	for b.Loop() {
		start(b, h, hub.StartParams{Workspace: hub.Workspace{Dir: dir}})
		n++
	}
	b.ReportMetric(float64(descriptors(b)-fds)/float64(n), "fds/thread")
	b.ReportMetric(float64(resident(b)-rss)/float64(n)/1024, "KiB/thread")
}

func descriptors(b *testing.B) int {
	b.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Skip(err)
	}
	return len(entries)
}

func resident(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc/self", "statm"))
	if err != nil {
		b.Skip(err)
	}
	pages := 0
	for _, c := range strings.Fields(string(text))[1] {
		pages = pages*10 + int(c-'0')
	}
	return pages * os.Getpagesize()
}
