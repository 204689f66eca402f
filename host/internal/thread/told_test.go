package thread

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// A thread that was resumed is told what changed since, and not all of it again; a log that lost what the model knows makes it
// be told everything.
func TestResumedThreadIsToldWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, date := &memory{}, "2026-11-21"
		var last []llm.Message
		e := &engine{stream: func(_ context.Context, _ int, r *llm.Request, yield func(llm.Event, error) bool) {
			last = r.Messages
			say("ok", yield)
		}}
		e.plan = func(_ context.Context, p *Plan) error {
			p.Participants = append(p.Participants, turntest.Context(func(last *event.Reference) []prompt.Section {
				return prompt.State{Environment: event.Environment{Cwd: "/w", Date: date}}.Sections(last)
			}))
			return nil
		}
		ask := func(th *Thread) {
			t.Helper()
			sub, err := th.Subscribe(t.Context(), Lossless)
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			if _, err := th.Submit(t.Context(), input("go")); err != nil {
				t.Fatal(err)
			}
			until(t, sub, func(e event.Event) bool { // not the end of a turn that a resume repairs
				end, ok := e.Body.(event.TurnEnded)
				return ok && end.Status == event.TurnCompleted
			})
		}
		resume := func(evs []event.Event) (*Thread, func()) {
			t.Helper()
			state, err := Rebuild(seq(evs))
			if err != nil {
				t.Fatal(err)
			}
			th := New(Config{ID: event.NewThreadID(), State: state, Sink: &memory{events: evs}, Engine: e, Logger: hclog.NewNullLogger()})
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan struct{})
			go func() { // owned by the test: stop waits
				defer close(done)
				_ = th.Run(ctx)
			}()
			return th, func() { cancel(orchestrate.ErrShutdown); <-done }
		}
		th, stop := startThread(t, e, sink)
		ask(th)
		stop()
		first := len(last)

		date = "2026-11-22"
		th, stop = resume(sink.all())
		ask(th)
		stop()
		if news := last[first+1 : len(last)-1]; len(news) != 1 || news[0].Text() != "<environment_context>\n  <current_date>2026-11-22</current_date>\n</environment_context>" {
			t.Errorf("told after a resume: %+v", news)
		}

		log := sink.all()
		for i, ev := range log {
			if _, told := ev.Body.(event.ContextUpdated); told {
				th, stop = resume(log[:i])
				ask(th)
				stop()
				break
			}
		}
		text := ""
		for _, m := range last {
			text += m.Text() + "\n"
		}
		if strings.Count(text, "<cwd>/w</cwd>") != 2 {
			t.Errorf("told after the log lost what it knows:\n%s", text)
		}
	})
}
