package store_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// forever makes the events of one thread that never ends, turn after turn.
func forever(thread event.ThreadID) func() event.Event {
	turn := storyTurns(thread)
	seq := uint64(0)
	return func() event.Event {
		seq++
		e := turn(int(seq))
		e.Seq = seq
		return e
	}
}

func benchStore(b *testing.B) (*store.Store, store.Config) {
	b.Helper()
	cfg := store.Config{Path: filepath.Join(b.TempDir(), "threads.db"), Database: storetest.Database(b), Logger: hclog.NewNullLogger()}
	return openAt(b, cfg), cfg
}

// latencies reports the median, the 99th percentile and the worst of what was measured.
func latencies(b *testing.B, took []time.Duration) {
	b.Helper()
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	b.ReportMetric(us(took[len(took)/2]), "median-µs")
	b.ReportMetric(us(took[len(took)*99/100]), "p99-µs")
	b.ReportMetric(us(took[len(took)-1]), "worst-µs")
}

func BenchmarkAppend(b *testing.B) {
	s, _ := benchStore(b)
	next := forever(event.NewThreadID())
	var last event.Event
	b.ReportAllocs()
	for b.Loop() {
		last = next()
		if err := s.Append(b.Context(), last); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Barrier(b.Context(), last.Thread, last.Seq); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkBarrier measures an append with its barrier, and beside it with a commit that is not synced.
func BenchmarkBarrier(b *testing.B) {
	for _, synced := range []bool{true, false} {
		b.Run(map[bool]string{true: "full", false: "normal"}[synced], func(b *testing.B) {
			s, _ := benchStore(b)
			next := forever(event.NewThreadID())
			var took []time.Duration
			for b.Loop() {
				e := next()
				start := time.Now()
				err := s.Append(b.Context(), e)
				if err == nil && synced {
					err = s.Barrier(b.Context(), e.Thread, e.Seq)
				} else if err == nil {
					err = s.Committed(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			latencies(b, took)
		})
	}
}

// BenchmarkCalls measures what the log of one call costs a turn that makes one call after the other, up to the barrier of
// the next: with the output in the history alone, and with the journal keeping it as well.
func BenchmarkCalls(b *testing.B) {
	for _, size := range []int{1 << 10, 8 << 10, 40 << 10} {
		for _, kept := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, map[bool]string{false: "history", true: "both"}[kept]), func(b *testing.B) {
				s, cfg := benchStore(b)
				thread, seq := event.NewThreadID(), uint64(0)
				tell := func(bodies ...event.Body) {
					var evs []event.Event
					for _, body := range bodies {
						seq++
						evs = append(evs, event.Event{Thread: thread, Turn: "turn", Seq: seq, Time: time.Now(), Body: body})
					}
					if err := s.Append(b.Context(), evs...); err != nil {
						b.Fatal(err)
					}
				}
				tell(event.ThreadStarted{Cwd: "/", Model: "m"}, event.TurnStarted{Cwd: "/"})
				output := strings.Repeat("a line of an output that is \"quoted\" here\n", size/42)
				var took []time.Duration
				for b.Loop() {
					call := event.CallID(fmt.Sprint("call-", seq))
					result := &llm.ToolResult{ID: string(call), Content: llm.Parts{&llm.Text{Text: output}}}
					start := time.Now()
					tell(event.CallStarted{Call: call, Tool: "exec_command", Plugin: "shell", Attempt: 1})
					if err := s.Barrier(b.Context(), thread, seq); err != nil {
						b.Fatal(err)
					}
					end := event.CallEnded{Call: call, Outcome: event.OutcomeOK}
					if kept {
						end.Result = result
					}
					tell(event.ItemCompleted{Item: event.Item{ID: event.ItemID(call), Type: event.ItemCommand, Output: output[:min(len(output), 64<<10)]}}, end)
					tell(event.HistoryAdded{Messages: []llm.Message{{Role: llm.RoleTool, Parts: []llm.Part{result}}}})
					took = append(took, time.Since(start))
				}
				latencies(b, took)
				if err := s.Barrier(b.Context(), thread, seq); err != nil {
					b.Fatal(err)
				}
				if info, err := os.Stat(cfg.Path); err == nil && !onServer() {
					b.ReportMetric(float64(info.Size())/float64(b.N), "file-B/call")
				}
			})
		}
	}
}

func BenchmarkOpenExisting(b *testing.B) {
	s, cfg := benchStore(b)
	next := forever(event.NewThreadID())
	for range 1000 {
		if err := s.Append(b.Context(), next()); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := store.Open(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkThreads(b *testing.B) {
	s, _ := benchStore(b)
	const threads = 10000
	for range threads {
		next := forever(event.NewThreadID())
		if err := s.Append(b.Context(), next(), next(), next()); err != nil {
			b.Fatal(err)
		}
	}
	for _, limit := range []int{0, 50} {
		b.Run(fmt.Sprintf("of=%d/limit=%d", threads, limit), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				list, err := s.Threads(b.Context(), store.Filter{Limit: limit})
				if want := min(threads, cmp.Or(limit, threads)); err != nil || len(list) != want {
					b.Fatal(len(list), err)
				}
				took = append(took, time.Since(start))
			}
			latencies(b, took)
		})
	}
	for _, by := range []store.Sort{store.ByUpdated, store.ByCreated} {
		b.Run(fmt.Sprintf("of=%d/limit=50/folder/by=%s", threads, cmp.Or(by, "updated_at")), func(b *testing.B) {
			list, err := s.Threads(b.Context(), store.Filter{Limit: 1})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if page, err := s.Threads(b.Context(), store.Filter{Limit: 50, Cwds: []string{list[0].Cwd}, Sort: by}); err != nil || len(page) != 50 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
	b.Run("find", func(b *testing.B) {
		list, err := s.Threads(b.Context(), store.Filter{Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := s.Thread(b.Context(), string(list[0].ID)[:35]); err != nil && !strings.Contains(err.Error(), "several") {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSearch looks through 10,000 threads: for a rare word, for one that stands everywhere, for one too short for the index,
// and through names.
func BenchmarkSearch(b *testing.B) {
	s, _ := benchStore(b)
	for n := range 10000 {
		id := event.NewThreadID()
		said := fmt.Sprintf("Please fix bug %d of the parser. %s", n, strings.Repeat("It says something about something. ", 10))
		if err := s.Append(b.Context(),
			event.Event{Seq: 1, Thread: id, Time: time.Unix(int64(n), 0), Body: event.ThreadStarted{Cwd: "/"}},
			event.Event{Seq: 2, Thread: id, Turn: "t", Body: event.ItemCompleted{Item: event.Item{ID: "u", Type: event.ItemUserMessage, Text: said}}},
			event.Event{Seq: 3, Thread: id, Turn: "t", Body: event.ItemCompleted{Item: event.Item{ID: "a", Type: event.ItemAgentMessage, Text: said}}},
		); err != nil {
			b.Fatal(err)
		}
	}
	for name, query := range map[string]string{"rare": "bug 4711", "everywhere": "parser", "short": "of", "nowhere": "sausage"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(b.Context(), query, store.Filter{Limit: 20}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("names", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Threads(b.Context(), store.Filter{Name: "bug 4711", Limit: 20}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	s, _ := benchStore(b)
	thread := event.NewThreadID()
	next := forever(thread)
	const events = 10000
	for range events {
		if err := s.Append(b.Context(), next()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		for _, err := range s.Events(b.Context(), thread, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != events {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.N)*events/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkArtifact(b *testing.B) {
	s, _ := benchStore(b)
	content := strings.Repeat("0123456789abcde\n", 4096) // 64 KiB
	n := 0
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		n++
		if _, err := s.PutArtifact(b.Context(), "text/plain", "f", strings.NewReader(fmt.Sprint(n, content))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTwoProcesses measures an append with a barrier while another process does the same on the same database.
func BenchmarkTwoProcesses(b *testing.B) {
	s, cfg := benchStore(b)
	other := startChild(b, childOf(cfg, childConfig{Mode: "busy"}))
	other.line(b) // it writes
	next := forever(event.NewThreadID())
	var took []time.Duration
	for b.Loop() {
		e := next()
		start := time.Now()
		if err := s.Append(b.Context(), e); err != nil {
			b.Fatal(err)
		}
		if err := s.Barrier(b.Context(), e.Thread, e.Seq); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	other.kill(b)
	latencies(b, took)
	if info, err := os.Stat(cfg.Path + "-wal"); err == nil {
		b.ReportMetric(float64(info.Size())/(1<<20), "wal-MiB")
	}
}
