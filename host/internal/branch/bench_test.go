package branch_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// longThread stores a thread of so many events, of which the last rest come after its only checkpoint; 0: there is none.
func longThread(b *testing.B, s *store.Store, events, rest int) event.ThreadID {
	b.Helper()
	id := event.NewThreadID()
	turn := storetest.Story(id, 1)
	var batch []event.Event
	for seq := 1; seq <= events; seq++ {
		e := turn[0]
		if seq > 1 {
			n := (seq - 2) / (len(turn) - 1)
			e = turn[1+(seq-2)%(len(turn)-1)]
			e.Turn = event.TurnID(fmt.Sprint("turn-", n))
			rename := func(i *event.Item) { i.ID += event.ItemID(fmt.Sprint("-", n)) }
			switch body := e.Body.(type) {
			case event.ItemStarted:
				rename(&body.Item)
				e.Body = body
			case event.ItemCompleted:
				rename(&body.Item)
				e.Body = body
			}
		}
		if rest > 0 && seq == events-rest {
			// As long as a history is after a compaction: pages of the user's words and the account.
			e.Body = event.HistoryCompacted{Item: "k", After: 20_000, Messages: []llm.Message{
				message("U" + strings.Repeat("word ", 8000)), message("S" + strings.Repeat("word ", 2000)),
			}, Thread: event.Checkpoint{Started: turn[0].Body.(event.ThreadStarted)}}
		}
		if rest > 0 && seq == events-rest+1 {
			e.Body = event.ItemCompleted{Item: event.Item{ID: "k", Type: event.ItemCompaction, Status: event.StatusCompleted}}
		}
		if rest > 0 && seq == events-rest-1 {
			e.Body = event.ItemStarted{Item: event.Item{ID: "k", Type: event.ItemCompaction, Status: event.StatusInProgress}}
		}
		e.Seq = uint64(seq)
		if batch = append(batch, e); len(batch) == 512 || seq == events {
			if err := s.Append(b.Context(), batch...); err != nil {
				b.Fatal(err)
			}
			batch = nil
		}
	}
	if err := s.Barrier(b.Context(), id, uint64(events)); err != nil {
		b.Fatal(err)
	}
	return id
}

func benchStore(b *testing.B) *store.Store {
	return storetest.Open(b, func(c *store.Config) {
		c.Path, c.Logger = filepath.Join(b.TempDir(), "threads.db"), hclog.NewNullLogger()
	})
}

// BenchmarkResume rebuilds threads of 100,000 events that were compacted some time ago, or never.
func BenchmarkResume(b *testing.B) {
	s := benchStore(b)
	for _, rest := range []int{1_000, 10_000, 0} {
		b.Run(fmt.Sprintf("of=100000/since=%d", rest), func(b *testing.B) {
			id := longThread(b, s, 100_000, rest)
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := branch.Resume(b.Context(), s, id); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "ms/resume-p50")
		})
	}
}

// BenchmarkFork copies threads.
func BenchmarkFork(b *testing.B) {
	s := benchStore(b)
	for _, events := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("events=", events), func(b *testing.B) {
			id := longThread(b, s, events, 500)
			for b.Loop() {
				if _, err := branch.Fork(b.Context(), s, s, id, branch.Point{}, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRollback plans to take back the last turn.
func BenchmarkRollback(b *testing.B) {
	s := benchStore(b)
	id := longThread(b, s, 100_000, 1_000)
	for b.Loop() {
		if _, err := branch.Last(b.Context(), s, id, 1); err != nil {
			b.Fatal(err)
		}
	}
}
