package thread

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Append(context.Context, ...event.Event) error          { return nil }
func (nowhere) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

// talked is a history of so many messages, each as long as a paragraph.
func talked(n int) []llm.Message {
	ms := make([]llm.Message, n)
	for i := range ms {
		ms[i].Role = llm.RoleUser
		if i%2 == 1 {
			ms[i].Role = llm.RoleAssistant
		}
		ms[i].Parts = []llm.Part{&llm.Text{Text: fmt.Sprint(i, " ", strings.Repeat("some words ", 40))}}
	}
	return ms
}

// BenchmarkTurn measures a turn of one answer, without a store and without a provider, on histories of different lengths: what
// the host does whatever is said.
func BenchmarkTurn(b *testing.B) {
	const turns = 16 // of one thread, so that its history stays about as long as it was
	for _, items := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint("items=", items), func(b *testing.B) {
			seen := 0
			e := &engine{stream: func(_ context.Context, _ int, r *llm.Request, yield func(llm.Event, error) bool) {
				seen = len(r.Messages)
				in, out := int64(2000), int64(10)
				say("done", func(ev llm.Event, err error) bool {
					switch ev := ev.(type) {
					case llm.StepFinish:
						ev.Usage = llm.Usage{Input: &in, Output: &out}
						return yield(ev, err)
					case llm.Finish:
						ev.Usage = llm.Usage{Input: &in, Output: &out}
						return yield(ev, err)
					}
					return yield(ev, err)
				})
			}}
			turn := func(th *Thread, sub *Subscription) {
				if _, err := th.Submit(b.Context(), input("go on")); err != nil {
					b.Fatal(err)
				}
				for {
					ev, err := sub.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if turnEnded(ev) {
						return
					}
				}
			}
			ms := talked(items)
			state := State{Seq: 1, Start: event.ThreadStarted{Cwd: "/"}, Messages: ms, Count: history.Compacted(len(ms), 1000)}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				th := New(Config{ID: event.NewThreadID(), State: state, Sink: nowhere{}, Engine: e, Logger: hclog.NewNullLogger()})
				ctx, end := context.WithCancelCause(b.Context())
				done := make(chan struct{})
				go func() { // owned by this iteration: waited for below
					defer close(done)
					_ = th.Run(ctx)
				}()
				sub, err := th.Subscribe(b.Context(), Lossless)
				if err != nil {
					b.Fatal(err)
				}
				turn(th, sub)
				b.StartTimer()
				for range turns {
					turn(th, sub)
				}
				b.StopTimer()
				if seen < items || seen > items+3*turns {
					b.Fatalf("the model saw %d messages", seen)
				}
				sub.Close()
				end(orchestrate.ErrShutdown)
				<-done
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*turns), "µs/turn")
		})
	}
}
