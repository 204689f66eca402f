package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// spoken is the number of the last thing that the user said.
func spoken(b *turntest.Bench) (seq uint64) {
	for _, e := range b.Events() {
		if h, ok := e.Body.(event.HistoryAdded); ok && h.Messages[0].Role == llm.RoleUser {
			seq = e.Seq
		}
	}
	return seq
}

// Whatever the user said is durable before the model reads it: the turn's own input and what joins the turn. A request that
// brings nothing new of the user waits for nothing.
func TestInputIsDurableBeforeTheModelReadsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const disk = time.Second
		var durable uint64
		b := turntest.New(
			turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Cut(), turntest.Say(turntest.Call("c2", "echo", `{}`)),
			turntest.Say(turntest.Text("done")))
		b.Tools = []turntest.Tool{echo("echo")}
		b.Tools[0].ReadOnly = true
		b.Commit = func(_ context.Context, seq uint64) error {
			time.Sleep(disk) // in the bubble
			durable = seq
			return nil
		}
		began := time.Now()
		b.OnStream = func(n int) {
			if want := spoken(b); durable < want {
				t.Errorf("request %d goes out while the log is durable up to %d; the user's words are %d", n, durable, want)
			}
			if n == 1 {
				b.Inbox.Add(turn.Input{Parts: []llm.Part{&llm.Text{Text: "and this"}}})
			}
		}
		if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnCompleted {
			t.Errorf("result = %+v", res)
		}
		// The first input, the one that joined, and the pause before the broken stream is asked again.
		if took := time.Since(began); took < 2*disk || took > 2*disk+300*time.Millisecond {
			t.Errorf("the turn waited %v for a disk that takes %v", took, disk)
		}
		wantRequest(t, b, 2, `
		user: go
		call c1: echo {}
		output c1: ran {}
		user: and this`)
	})
}

// An interrupt ends waiting for the disk, and the request is not sent. A log that can't keep anything has told so: the
// model answers all the same.
func TestTurnWithoutDurableInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(turntest.Say(turntest.Text("done")))
		b.Commit = func(ctx context.Context, _ uint64) error { <-ctx.Done(); return context.Cause(ctx) }
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(orchestrate.ErrInterrupted) })
		if res := b.Run(t, ctx, "go"); res.Status != event.TurnInterrupted || !errors.Is(res.Cause, orchestrate.ErrInterrupted) {
			t.Errorf("result = %+v", res)
		}
		if n := len(b.Requests()); n != 0 {
			t.Errorf("%d requests went out", n)
		}
	})
	b := turntest.New(turntest.Say(turntest.Text("done")))
	b.Commit = func(context.Context, uint64) error { return errors.New("the disk is full") }
	if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnCompleted {
		t.Errorf("result = %+v", res)
	}
}
