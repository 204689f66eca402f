package sink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/hashicorp/go-hclog"
)

// What is told of a failure may still use the sink while it closes, and is refused.
func TestDeliverWhileItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Sink
		told, late := make(chan struct{}), make(chan error, 1)
		s = Start(Config{
			BatchRows: 10, BatchDelay: time.Millisecond, QueueRows: 100, QueueBytes: 1 << 20, KeepRows: 1000, KeepBytes: 1 << 20, Log: hclog.NewNullLogger(),
			Write:    func(context.Context, Batch) Outcome { return Outcome{Err: errors.New("the disk is full")} },
			Maintain: func(context.Context) error { return nil },
			OnDegraded: func(error) {
				close(told)
				time.Sleep(time.Second) // until the sink has written its last batch
				late <- s.Deliver(context.Background(), someEvent(event.ThreadID("b"), 1))
			},
		})
		if err := s.Deliver(t.Context(), someEvent(event.ThreadID("a"), 1)); err != nil {
			t.Fatal(err)
		}
		<-told
		if err := s.Close(t.Context()); err == nil {
			t.Error("what was not written is lost without a word")
		}
		if err := <-late; !errors.Is(err, database.ErrClosed) {
			t.Errorf("delivered: %v", err)
		}
	})
}
