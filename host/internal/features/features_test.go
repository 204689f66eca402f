package features_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// goal is a feature as a package of its own would have it: what the thread works towards, and how many answers that took.
type goal struct {
	Text    string `json:"text"`
	Answers int    `json:"answers"`
}

// feature implements [thread.Feature] for goals.
type feature struct{}

func (feature) ID() string { return "goal" }

func (feature) Apply(state json.RawMessage, e event.Event) json.RawMessage {
	switch b := e.Body.(type) {
	case event.FeatureChanged:
		if b.Feature == "goal" {
			return marshal(goal{Text: string(b.Data[1 : len(b.Data)-1])})
		}
	case event.UsageReported:
		if state != nil {
			g := read(state)
			g.Answers++
			return marshal(g)
		}
	}
	return state
}

func read(state json.RawMessage) (g goal) {
	if state != nil {
		if err := json.Unmarshal(state, &g); err != nil {
			panic(err)
		}
	}
	return g
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// participant takes part in turns for the goal: it has a section, and the turn goes on until the goal is worked on twice.
type participant struct{ t *thread.Thread }

func (p participant) Sections(*event.Reference) []prompt.Section {
	s := prompt.Section{ID: "goal", Role: llm.RoleSystem, Gone: "<goal>none</goal>"}
	if g := read(p.t.Feature("goal")); g.Text != "" {
		s.Text = "<goal>" + g.Text + "</goal>"
	}
	return []prompt.Section{s}
}

func (p participant) Stop(context.Context, hook.Ending) (hook.StopVerdict, error) {
	g := read(p.t.Feature("goal"))
	return hook.StopVerdict{Block: g.Text != "" && g.Answers < 2, Reason: "the goal is not reached"}, nil
}

// world is the engine, the model and the sink of a thread.
type world struct {
	mu     sync.Mutex
	events []event.Event
	asked  []llm.Request
}

func (w *world) Turn(_ context.Context, t *thread.Thread, _ event.TurnID, _ thread.Submission) (thread.Plan, error) {
	return thread.Plan{Started: event.TurnStarted{Cwd: "/"}, Config: turn.Config{
		Model: w, Tools: registry.New().Snapshot, Participants: []turn.Participant{participant{t}},
	}}, nil
}

func (w *world) Check(context.Context, *thread.Thread, thread.Change) error { return nil }
func (w *world) End(context.Context, event.ThreadID)                        {}

func (w *world) Stream(_ context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	w.mu.Lock()
	w.asked = append(w.asked, *r)
	text := "ok"
	if len(w.asked) == 1 {
		text = strings.Repeat("ok ", 3000) // worth a compaction
	}
	w.mu.Unlock()
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: text},
			llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, llm.StepFinish{}, llm.Finish{},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func (w *world) Append(_ context.Context, evs ...event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, evs...)
	return nil
}

func (w *world) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

// log returns the events so far.
func (w *world) log() []event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// goals returns what the last request says of the goal, message by message.
func (w *world) goals() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.asked[len(w.asked)-1].Messages {
		if strings.HasPrefix(m.Text(), "<goal>") {
			out = append(out, m.Role.String()+": "+m.Text())
		}
	}
	return out
}

func rebuild(t *testing.T, evs []event.Event, fs ...thread.Feature) thread.State {
	t.Helper()
	s, err := thread.Rebuild(func(yield func(event.Event, error) bool) {
		for _, e := range evs {
			if !yield(e, nil) {
				return
			}
		}
	}, fs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs a thread until stop is called.
func (w *world) start(t *testing.T, cfg thread.Config) (th *thread.Thread, stop func()) {
	cfg.ID, cfg.Sink, cfg.Engine, cfg.Logger, cfg.Features = "thread", w, w, hclog.NewNullLogger(), []thread.Feature{feature{}}
	th = thread.New(cfg)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { // owned by the test: stop waits
		defer close(done)
		_ = th.Run(ctx)
	}()
	return th, func() { cancel(orchestrate.ErrShutdown); <-done }
}

func submit(t *testing.T, th *thread.Thread, s thread.Submission) {
	t.Helper()
	sub, err := th.Subscribe(t.Context(), thread.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if _, err := th.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if end, ok := e.Body.(event.TurnEnded); ok {
			if end.Status != event.TurnCompleted {
				t.Fatalf("%+v", end)
			}
			return
		}
	}
}

func said(text string) thread.Submission {
	return thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}}}
}

func set(t *testing.T, th *thread.Thread, text string) {
	t.Helper()
	if _, err := th.Publish(t.Context(), "", event.FeatureChanged{Feature: "goal", Data: marshal(text)}); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, when string, state json.RawMessage, g goal) {
	t.Helper()
	if got := read(state); got != g {
		t.Errorf("%s: goal %+v, want %+v", when, got, g)
	}
}

// A feature with state, with a section of the prompt and a say in the turn needs nothing but its own package. Its state is there
// after a restart, a compaction and when turns were taken back, and the model is told of it once.
func TestFeature(t *testing.T) {
	w := &world{}
	th, stop := w.start(t, thread.Config{Start: &event.ThreadStarted{Cwd: "/"}})
	submit(t, th, said("no goal yet"))
	if got := w.goals(); got != nil {
		t.Errorf("told without a goal: %q", got)
	}
	set(t, th, "ship it")
	submit(t, th, said("go")) // goes on once
	want(t, "after a turn", th.Feature("goal"), goal{"ship it", 2})
	stop()
	first := []string{"system: <goal>ship it</goal>"}
	if got := w.goals(); !slices.Equal(got, first) || len(w.asked) != 3 {
		t.Errorf("told %q in %d requests", got, len(w.asked))
	}

	state := rebuild(t, w.log(), feature{})
	want(t, "rebuilt", state.Features["goal"], goal{"ship it", 2})
	th, stop = w.start(t, thread.Config{State: state})
	submit(t, th, said("more"))
	want(t, "after a restart", th.Feature("goal"), goal{"ship it", 3})
	if got := w.goals(); !slices.Equal(got, first) {
		t.Errorf("told after a restart: %q", got)
	}

	before := rebuild(t, w.log(), feature{})
	set(t, th, "rest")
	submit(t, th, said("anything else?"))
	if got := w.goals(); !slices.Equal(got, append(first, "system: <goal>rest</goal>")) {
		t.Errorf("told of another goal: %q", got)
	}
	if _, err := th.Revert(t.Context(), func(context.Context) (thread.Cut, error) {
		return thread.Cut{State: before, Event: event.ThreadReverted{Thread: event.Checkpoint{Features: before.Features}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	want(t, "when turns were taken back", th.Feature("goal"), goal{"ship it", 3})

	submit(t, th, thread.Submission{Compact: true})
	want(t, "after a compaction", th.Feature("goal"), goal{"ship it", 4})
	stop()
	log := w.log()
	at := slices.IndexFunc(log, func(e event.Event) bool { _, ok := e.Body.(event.HistoryCompacted); return ok })
	if at < 0 {
		t.Fatal("the history was not compacted")
	}
	want(t, "from the checkpoint", rebuild(t, log[at:], feature{}).Features["goal"], goal{"ship it", 4})
	// A build without the feature keeps its state.
	th, stop = w.start(t, thread.Config{State: rebuild(t, log[at:])})
	want(t, "by a build without the feature", th.Feature("goal"), goal{"ship it", 4})
	submit(t, th, said("still there?"))
	stop()
	if got := w.goals(); !slices.Equal(got, first) {
		t.Errorf("told after the compaction: %q", got)
	}
}
