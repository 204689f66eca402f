package thread

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

func fromClient(id, text string) Submission {
	s := input(text)
	s.Input.ClientID = id
	return s
}

// A message with a client's identity is accepted once, however often it is sent: while it is being accepted, while its turn runs, after
// that, and after a restart of the host.
func TestARepeatedMessageIsAcceptedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		answer := make(chan struct{})
		th, stop := startThread(t, &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			select {
			case <-answer:
				say("fine", yield)
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
			}
		}}, sink)
		var accepted [8]Accepted
		var sending sync.WaitGroup
		for i := range accepted {
			sending.Go(func() {
				var err error
				if accepted[i], err = th.Submit(t.Context(), fromClient("m1", "go")); err != nil {
					t.Error(err)
				}
			})
		}
		sending.Wait()
		first := 0
		for _, a := range accepted {
			if a.Turn == "" || a.Turn != accepted[0].Turn || a.Steered {
				t.Errorf("%+v", accepted)
			}
			if !a.Repeated {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%d of the submissions were the first one", first)
		}
		turn := accepted[0].Turn
		for range 2 {
			a, err := th.Steer(t.Context(), turn, fromClient("m2", "and this").Input)
			if err != nil || a.Turn != turn {
				t.Errorf("steered: %+v, %v", a, err)
			}
		}
		close(answer)
		synctest.Wait()
		if a, err := th.Submit(t.Context(), fromClient("m2", "and this")); err != nil || a.Turn != turn || !a.Repeated {
			t.Errorf("after the turn: %+v, %v", a, err)
		}
		stop()

		s, err := Rebuild(seq(sink.all()))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		th = New(Config{ID: th.ID(), State: s, Sink: sink, Engine: parrot(new([]string), atOnce), Logger: hclog.NewNullLogger()})
		var running sync.WaitGroup
		running.Go(func() { _ = th.Run(ctx) })
		if a, err := th.Submit(t.Context(), fromClient("m1", "go")); err != nil || a.Turn != turn || !a.Repeated {
			t.Errorf("after the restart: %+v, %v", a, err)
		}
		if a, err := th.Submit(t.Context(), fromClient("m3", "more")); err != nil || a.Turn == turn || a.Repeated {
			t.Errorf("another message: %+v, %v", a, err)
		}
		synctest.Wait()
		cancel()
		running.Wait()
		if s, err = Rebuild(seq(sink.all())); err != nil {
			t.Fatal(err)
		}
		for text, n := range said(s.Messages) {
			if n != 1 {
				t.Errorf("%q is %d times in the history", text, n)
			}
		}
		var ids []string
		for _, e := range sink.all() {
			if c, ok := e.Body.(event.ItemCompleted); ok && c.Item.Type == event.ItemUserMessage {
				ids = append(ids, c.Item.ClientID)
			}
		}
		if !slices.Equal(ids, []string{"m1", "m2", "m3"}) {
			t.Errorf("items of %q", ids)
		}
	})
}

// Whenever the host dies, a client that repeats its message finds it once in the history.
func TestARepeatedMessageAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &crashing{}
		th, stop := startThread(t, parrot(new([]string), atOnce), sink)
		submitOrFail(t, th, fromClient("m1", "go"))
		synctest.Wait()
		stop()
		for _, end := range sink.ends {
			s, err := Rebuild(seq(sink.all()[:end]))
			if err != nil {
				t.Fatal(err)
			}
			again := &memory{}
			if err := again.Append(t.Context(), sink.all()[:end]...); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			th := New(Config{ID: th.ID(), State: s, Sink: again, Engine: parrot(new([]string), atOnce), Logger: hclog.NewNullLogger()})
			var running sync.WaitGroup
			running.Go(func() { _ = th.Run(ctx) })
			submitOrFail(t, th, fromClient("m1", "go"))
			synctest.Wait()
			cancel()
			running.Wait()
			if s, err = Rebuild(seq(again.all())); err != nil {
				t.Fatal(err)
			}
			h := history.New(s.Messages)
			s.repair(h, hostStopped)
			if n := said(h.Messages())["go"]; n != 1 {
				t.Errorf("a crash after event %d: the message is %d times in the history", end, n)
			}
		}
	})
}

// A sender that gives up does not keep another one from sending the same message.
func TestARepeatedMessageOfASenderThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := startThread(t, &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		}}, &memory{})
		defer stop()
		submitOrFail(t, th, input("go"))
		synctest.Wait()
		waits := fromClient("m1", "next")
		waits.OutputSchema = []byte(`{}`) // it waits for the end of the turn
		ctx, leave := context.WithCancel(t.Context())
		var sending sync.WaitGroup
		sending.Go(func() {
			if a, err := th.Submit(ctx, waits); err == nil {
				t.Errorf("a sender that has left: %+v", a)
			}
		})
		synctest.Wait()
		var second Accepted
		sending.Go(func() {
			var err error
			if second, err = th.Submit(t.Context(), fromClient("m1", "next")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		leave()
		sending.Wait()
		if !second.Steered || second.Repeated {
			t.Errorf("%+v", second)
		}
	})
}

// A thread remembers a bounded number of messages.
func TestMessagesAreBounded(t *testing.T) {
	f := accepted{}
	state := f.Apply(nil, event.Event{Body: event.InputAccepted{Item: "i", Turn: "t"}})
	if state != nil {
		t.Errorf("a message without an identity: %s", state)
	}
	for i := range 3 * maxMessages {
		state = f.Apply(state, event.Event{Turn: "t", Body: event.ItemCompleted{Item: event.Item{ID: event.ItemID(fmt.Sprint(i)), ClientID: fmt.Sprint("m", i)}}})
	}
	if n := len(messagesOf(state)); n != maxMessages {
		t.Errorf("%d are remembered", n)
	}
	if m, ok := MessageOf(state, fmt.Sprint("m", 3*maxMessages-1)); !ok || m.Turn != "t" || m.Item != event.ItemID(fmt.Sprint(3*maxMessages-1)) {
		t.Errorf("the last one: %+v, %v", m, ok)
	}
	if _, ok := MessageOf(state, "m0"); ok {
		t.Error("the first one is remembered")
	}
	if _, ok := MessageOf([]byte("{"), "m0"); ok {
		t.Error("a broken state knows a message")
	}
}
