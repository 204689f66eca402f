package console

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/hashicorp/go-hclog"
)

func threadCount(t *testing.T, s *store.Store) int {
	t.Helper()
	infos, err := s.Threads(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(infos)
}

func fill(t *testing.T, s *store.Store, ids ...event.ThreadID) {
	t.Helper()
	for _, id := range ids {
		story := storetest.Story(id, 1)
		if err := s.Append(t.Context(), story...); err != nil {
			t.Fatal(err)
		}
		if err := s.Barrier(t.Context(), id, story[len(story)-1].Seq); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTidyOnceADay(t *testing.T) {
	home, s, log := t.TempDir(), storetest.Open(t), hclog.NewNullLogger()
	stamp := filepath.Join(home, "cache", tidyStamp)
	cfg := &config.Config{Store: config.Store{Retention: config.Retention{MaxThreads: 1}}}

	fill(t, s, "a", "b")
	tidy(t.Context(), home, cfg, s, log)
	if n := threadCount(t, s); n != 1 {
		t.Fatalf("%d threads are left, want 1", n)
	}
	fill(t, s, "c")
	tidy(t.Context(), home, cfg, s, log)
	if n := threadCount(t, s); n != 2 {
		t.Fatalf("cleaned up twice on one day: %d threads are left, want 2", n)
	}
	// A day later, and also with a clock that was set back.
	for _, at := range []time.Time{time.Now().Add(-tidyEvery - time.Minute), time.Now().Add(tidyEvery)} {
		fill(t, s, event.NewThreadID())
		if err := os.Chtimes(stamp, at, at); err != nil {
			t.Fatal(err)
		}
		tidy(t.Context(), home, cfg, s, log)
		if n := threadCount(t, s); n != 1 {
			t.Errorf("stamp %v: %d threads are left, want 1", at, n)
		}
	}
}

// A host that ends meanwhile leaves the work to the next one.
func TestTidyInterrupted(t *testing.T) {
	home, s := t.TempDir(), storetest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tidy(ctx, home, &config.Config{}, s, hclog.NewNullLogger())
	info, err := os.Stat(filepath.Join(home, "cache", tidyStamp))
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(info.ModTime()); age < tidyEvery {
		t.Errorf("the interrupted clean-up counts as one %v ago", age)
	}
}
