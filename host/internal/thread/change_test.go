package thread

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// planner notes the folder that each turn was planned for.
type planner struct {
	engine
	folders []string
	efforts []string
}

func (p *planner) Turn(ctx context.Context, t *Thread, id event.TurnID, in Submission) (Plan, error) {
	set := in.Change.With(t.Settings())
	p.folders = append(p.folders, set.Cwd)
	p.efforts = append(p.efforts, set.Reasoning)
	return p.engine.Turn(ctx, t, id, in)
}

func TestSettingsOfAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &planner{}
		e.stream = func(_ context.Context, n int, _ *llm.Request, yield func(llm.Event, error) bool) {
			if n == 2 {
				<-release
			}
			say("ok", yield)
		}
		sink := &memory{}
		th, stop := startThread(t, &e.engine, sink)
		th.cfg.Engine = e
		sub, _ := th.Subscribe(t.Context(), Lossless)
		run := func(s Submission) {
			t.Helper()
			a, err := th.Submit(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			ended(t, sub, a.Turn)
		}
		run(input("one"))
		in := input("two")
		in.Cwd, in.Reasoning = "/b", "high"
		waiting := make(chan error)
		go func() { // owned by the test: received below
			_, err := th.Submit(t.Context(), in)
			waiting <- err
		}()
		if err := <-waiting; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// The turn that runs keeps what it has; the change holds from the next one on.
		go func() { waiting <- th.Configure(t.Context(), Change{Cwd: "/c", Approval: "never"}) }() // owned by the test: received below
		synctest.Wait()
		if th.Settings().Cwd != "/b" {
			t.Errorf("in the running turn: %+v", th.Settings())
		}
		close(release)
		if err := <-waiting; err != nil {
			t.Error(err)
		}
		run(input("three"))
		if err := th.Configure(t.Context(), Change{Cwd: "/nowhere"}); err == nil {
			t.Error("a folder that is not there is taken")
		}
		bad := input("four")
		bad.Cwd = "/nowhere"
		if _, err := th.Submit(t.Context(), bad); err == nil {
			t.Error("a folder that is not there is taken with a task")
		}
		run(Submission{Input: input("five").Input, Change: Change{Model: "other"}})
		stop()
		if got, want := e.folders, []string{"/", "/b", "/c", "/c"}; len(got) != 4 || [4]string(got) != [4]string(want) {
			t.Errorf("turns ran in %q, want %q", got, want)
		}
		if got, want := e.efforts, []string{"", "high", "high", ""}; len(got) != 4 || [4]string(got) != [4]string(want) {
			t.Errorf("turns with the efforts %q, want %q: another model has other ones", got, want)
		}

		// A resumed thread is where it was; who is asked is today's configuration.
		state, err := Rebuild(seq(sink.all()))
		if err != nil {
			t.Fatal(err)
		}
		again := New(Config{State: state, Sink: sink, Logger: hclog.NewNullLogger()})
		if got := again.Settings(); got != (event.Settings{Cwd: "/c"}) {
			t.Errorf("resumed with %+v", got)
		}
	})
}

// A model that was chosen between two turns is the next turn's, which knows the one before.
func TestModelChosenBetweenTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{stream: func(_ context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) { say("ok", yield) }}
		sink := &memory{}
		th, stop := startThread(t, e, sink)
		sub, _ := th.Subscribe(t.Context(), Lossless)
		if err := th.Configure(t.Context(), Change{Model: "b"}); err != nil {
			t.Fatal(err)
		}
		state, _ := Rebuild(seq(sink.all()))
		if state.Settings.Model != "b" {
			t.Errorf("the log forgets the choice: %+v", state.Settings)
		}
		e.plan = func(_ context.Context, p *Plan) error {
			if want := th.Settings().Model; want != "" {
				p.Changed = &event.ModelChanged{From: th.Model(), To: event.Selection{Model: want}}
			}
			return nil
		}
		for range 2 {
			a, _ := th.Submit(t.Context(), input("go"))
			ended(t, sub, a.Turn)
		}
		stop()
		changed := 0
		for _, ev := range sink.all() {
			if c, ok := ev.Body.(event.ModelChanged); ok && c.To.Model == "b" {
				changed++
			}
		}
		if changed != 1 || th.Settings().Model != "" || th.Model().Model != "b" {
			t.Errorf("%d changes, settings %+v, model %+v", changed, th.Settings(), th.Model())
		}
	})
}
