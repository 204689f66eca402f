package run

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/hashicorp/go-hclog"
)

// memory is a log that keeps events.
type memory struct {
	mu     sync.Mutex
	events []event.Event
}

func (m *memory) Append(_ context.Context, evs ...event.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, evs...)
	return nil
}

func (m *memory) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

func (m *memory) after(_ context.Context, n uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		m.mu.Lock()
		all := append([]event.Event(nil), m.events...)
		m.mu.Unlock()
		for _, e := range all {
			if e.Seq > n && !yield(e, nil) {
				return
			}
		}
	}
}

// idle is the engine of a thread without turns.
type idle struct{ thread.Engine }

func (idle) End(context.Context, event.ThreadID) {}

// Whose output nobody takes for minutes is disconnected from the thread, which goes on; when somebody reads again, nothing is
// missing, and nothing comes twice.
func TestFollowerAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		th := thread.New(thread.Config{ID: event.NewThreadID(), State: thread.State{}, Sink: log, Engine: idle{}, Logger: hclog.NewNullLogger()})
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		go func() { // owned by the test: waited for below
			defer close(ended)
			_ = th.Run(ctx)
		}()
		defer func() {
			stop(orchestrate.ErrShutdown)
			<-ended
		}()
		f, err := follow(t.Context(), th, log.after)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const n = 3000
		said := make(chan struct{})
		go func() { // owned by the test: waited for below
			defer close(said)
			for i := range n {
				if _, err := th.Publish(t.Context(), "", event.Notice{Text: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		}()
		first, err := f.Next(t.Context())
		if err != nil || first.Seq != 1 {
			t.Fatalf("%+v, %v", first, err)
		}
		time.Sleep(5 * time.Minute) // in the bubble
		<-said
		last := first.Seq
		notes := 0
		for notes < n-1 {
			e, err := f.Next(t.Context())
			if err != nil {
				t.Fatalf("after %d: %v", last, err)
			}
			if e.Seq != last+1 {
				t.Fatalf("event %d came behind %d", e.Seq, last)
			}
			last = e.Seq
			if b := e.Body.(event.Notice); b.Level == "" {
				notes++
			}
		}
		if f.until == 0 {
			t.Error("it was never disconnected")
		}
	})
}
