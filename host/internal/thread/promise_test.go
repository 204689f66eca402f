package thread

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// crashing remembers after which events a host could have died: what is appended together is stored together.
type crashing struct {
	memory
	ends []int
}

func (c *crashing) Append(ctx context.Context, evs ...event.Event) error {
	err := c.memory.Append(ctx, evs...)
	if err == nil {
		c.ends = append(c.ends, len(c.all()))
	}
	return err
}

func promised(s string) Submission {
	sub := input(s)
	sub.Durable = true
	return sub
}

// Who was told that his words were taken finds them in the history, once, wherever the host died afterwards.
func TestWhatWasAcknowledgedOutlivesTheHost(t *testing.T) {
	for _, tc := range []struct {
		name string
		say  []string // the first one begins the turn, the others steer it
		stop error    // ends the turn; nil: it goes on to its end
	}{
		{"the words that began the turn", []string{"go"}, nil},
		{"a steered turn", []string{"go", "and this", "and that"}, nil},
		{"an interrupted turn", []string{"go", "and this"}, orchestrate.ErrInterrupted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &crashing{}
				answer := make(chan struct{})
				th, stop := startThread(t, &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
					select {
					case <-answer:
						say("fine", yield)
					case <-ctx.Done():
						yield(nil, context.Cause(ctx))
					}
				}}, sink)
				acknowledged := map[string]int{} // after how many events
				for _, text := range tc.say {
					if _, err := th.Submit(t.Context(), promised(text)); err != nil {
						t.Fatal(err)
					}
					acknowledged[text] = len(sink.all())
					synctest.Wait()
				}
				if tc.stop != nil {
					if err := th.Interrupt(t.Context(), tc.stop); err != nil {
						t.Fatal(err)
					}
				} else {
					close(answer)
				}
				synctest.Wait()
				stop()
				for _, end := range sink.ends {
					logged := sink.all()[:end]
					for text, n := range afterCrash(t, logged) {
						if want, ok := acknowledged[text]; ok && n != 1 && end >= want || n > 1 {
							t.Errorf("a crash after event %d: %q stands %d times in the history", end, text, n)
						}
					}
				}
			})
		})
	}
}

// afterCrash says how often each text of a user stands in the history that a resumed thread has, also when the repair was cut
// off and done again.
func afterCrash(t *testing.T, logged []event.Event) map[string]int {
	t.Helper()
	s, err := Rebuild(seq(logged))
	if err != nil {
		t.Fatal(err)
	}
	h := history.Restore(s.Messages, s.Count)
	bodies := s.repair(h, hostStopped)
	n := said(h.Messages())
	for _, b := range bodies {
		logged = append(slices.Clip(logged), event.Event{Seq: uint64(len(logged) + 1), Body: b})
	}
	if again, err := Rebuild(seq(logged)); err != nil || len(again.repair(history.New(again.Messages), hostStopped)) > 0 || len(again.Accepted) > 0 {
		t.Errorf("what was repaired is not whole: %v, %+v", err, again.Accepted)
	}
	for _, text := range []string{"go", "and this", "and that"} { // those that are missing, too
		n[text] += 0
	}
	return n
}

// A turn that compacts its history has not read yet what waits for it.
func TestACheckpointKeepsWhatWasAcknowledged(t *testing.T) {
	in := event.InputAccepted{Turn: "u", Item: "i", Message: llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "and this"}}}}
	sink := &memory{}
	b := newBus("t", sink, 0)
	defer b.close()
	publish := func(bodies ...event.Body) {
		t.Helper()
		if _, err := b.Publish(t.Context(), "u", bodies...); err != nil {
			t.Fatal(err)
		}
	}
	publish(event.ThreadStarted{Cwd: "/"}, event.TurnStarted{}, in)
	publish(event.HistoryCompacted{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "so far"}}}}})
	if n := afterCrash(t, sink.all()[3:]); n["and this"] != 1 {
		t.Errorf("after the checkpoint: %v", n)
	}
	publish(event.HistoryAdded{Messages: []llm.Message{in.Message}}, event.ItemCompleted{Item: event.Item{ID: in.Item}})
	publish(event.HistoryCompacted{Messages: []llm.Message{in.Message}})
	if n := afterCrash(t, sink.all()[6:]); n["and this"] != 1 {
		t.Errorf("after a checkpoint that has it: %v", n)
	}
}

// Code that runs on after its call has returned may have started calls before a compaction that have not ended when the host stops.
func TestACheckpointKeepsTheCallsOfCode(t *testing.T) {
	sink := &memory{}
	b := newBus("t", sink, 0)
	defer b.close()
	publish := func(bodies ...event.Body) {
		t.Helper()
		if _, err := b.Publish(t.Context(), "u", bodies...); err != nil {
			t.Fatal(err)
		}
	}
	nested := func(id event.CallID) event.CallStarted {
		return event.CallStarted{Call: id, Tool: string("tool-" + id), Parents: []event.CallID{"exec"}, Attempt: 1}
	}
	publish(event.ThreadStarted{Cwd: "/"}, event.TurnStarted{}, event.CallStarted{Call: "exec", Tool: "exec", Attempt: 1}, nested("a"), nested("b"), nested("c"))
	publish(event.QuestionAsked{ID: "q", Call: "b"}, event.CallEnded{Call: "exec"}, event.CallEnded{Call: "c"})
	compacted := event.HistoryCompacted{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "so far"}}}}}
	publish(compacted)
	publish(event.CallEnded{Call: "a"}, nested("d"))
	last := len(sink.all())
	publish(compacted)
	for name, from := range map[string]int{"all": 0, "from the first checkpoint": 9, "from the last checkpoint": last} {
		s, err := Rebuild(seq(sink.all()[from:]))
		if err != nil {
			t.Fatal(err)
		}
		h := history.Restore(s.Messages, s.Count)
		var ended []event.CallID
		var resolved []string
		for _, body := range s.repair(h, hostStopped) {
			switch b := body.(type) {
			case event.CallEnded:
				ended = append(ended, b.Call)
			case event.QuestionResolved:
				resolved = append(resolved, b.ID)
			}
		}
		if !slices.Equal(ended, []event.CallID{"b", "d"}) || !slices.Equal(resolved, []string{"q"}) {
			t.Errorf("%s: ended %q, resolved %q", name, ended, resolved)
		}
		if text := fmt.Sprint(said(h.Messages())); !strings.Contains(text, "- tool-b") || !strings.Contains(text, "- tool-d") || strings.Contains(text, "- tool-a") || strings.Contains(text, "- tool-c") {
			t.Errorf("%s: the model reads %s", name, text)
		}
	}
	publish(event.TurnEnded{})
	if c := b.st.state.checkpoint(); len(c.Calls)+len(c.Asked) > 0 {
		t.Errorf("after the turn: %+v, %+v", c.Calls, c.Asked)
	}
}

// Words that were not taken leave nothing behind.
func TestRefusedInputIsNoPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		th, stop := startThread(t, &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		}}, sink)
		if _, err := th.Submit(t.Context(), promised("go")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		waits := promised("later")
		waits.OutputSchema = []byte(`{}`) // waits for the end of the turn
		if _, err := th.Submit(ctx, waits); err == nil {
			t.Error("it was taken")
		}
		synctest.Wait()
		stop()
		if n := len(th.bus.st.promised); n != 0 {
			t.Errorf("%d promises are left", n)
		}
		if n := said(recorded(t, sink)); n["go"] != 1 || n["later"] != 0 {
			t.Errorf("in the history: %v", n)
		}
	})
}
