package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// recite is a model that says what it was told last.
const recite = `
[[step]]
times = -1
usage = { input = 100, output = 10 }
do    = [{ text = "heard ${user}" }]
`

// dialled connects to the socket of a thread that runs in h.
func dialled(t *testing.T, opts host.Options, id event.ThreadID) *threadsocket.Client {
	t.Helper()
	path, err := runsocket.Path(opts.Home, id)
	if err != nil {
		t.Fatal(err)
	}
	c, err := threadsocket.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func started(t *testing.T, opts host.Options, tasks ...string) (*host.Host, *thread.Thread) {
	t.Helper()
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	th, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir(), Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	say(t, th, tasks...)
	return h, th
}

func say(t *testing.T, th *thread.Thread, tasks ...string) {
	t.Helper()
	for _, task := range tasks {
		if got, err := ask(t.Context(), th, task); err != nil || got != "heard "+task {
			t.Fatalf("%s: %q, %v", task, got, err)
		}
	}
}

// said is what users say in a thread, as its log has it for who goes on with it.
func said(t *testing.T, h *host.Host, id event.ThreadID) string {
	t.Helper()
	st, err := thread.Rebuild(h.Store().EffectiveEvents(t.Context(), id, 0))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range st.Messages {
		if text := m.Text(); !strings.Contains(text, "<") && m.Role == llm.RoleUser {
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

// Clients of the socket change a thread while it runs.
func TestAThreadIsChangedOverItsSocket(t *testing.T) {
	opts := optionsWith(t, "library", recite)
	h, th := started(t, opts, "one", "two", "three")
	c := dialled(t, opts, th.ID())
	ctx := t.Context()

	fork, err := c.Fork(ctx, threadsocket.ForkParams{LastTurn: "2", Name: "copy"})
	if err != nil || fork.ForkedFrom != th.ID() || said(t, h, fork.Thread) != "one two" {
		t.Errorf("fork %+v, %v: %s", fork, err, said(t, h, fork.Thread))
	}
	if r, err := c.Rollback(ctx, threadsocket.RollbackParams{Turns: 1}); err != nil || r.Turns != 1 || r.Usage.Total != 220 {
		t.Errorf("rollback %+v, %v", r, err)
	}
	if r, err := c.Revert(ctx, threadsocket.RevertParams{BeforeTurn: "2"}); err != nil || r.Turns != 1 || r.Usage.Total != 110 {
		t.Errorf("revert %+v, %v", r, err)
	}
	say(t, th, "four")
	if got := said(t, h, th.ID()); got != "one four" {
		t.Errorf("after reverts: %s", got)
	}
	if err := c.Name(ctx, " the work "); err != nil {
		t.Error(err)
	}
	stored, err := h.Store().Thread(ctx, string(th.ID()))
	if err != nil || stored.Name != "the work" || stored.Turns != 2 || stored.Tokens.Total != 220 {
		t.Errorf("stored as %+v, %v", stored, err)
	}

	for what, ask := range map[string]func() error{
		"turn not found":             func() error { _, err := c.Revert(ctx, threadsocket.RevertParams{BeforeTurn: "9"}); return err },
		"beforeTurnId":               func() error { _, err := c.Revert(ctx, threadsocket.RevertParams{}); return err },
		"invalid number of turns: 0": func() error { _, err := c.Rollback(ctx, threadsocket.RollbackParams{}); return err },
		"must not be empty":          func() error { return c.Name(ctx, " ") },
		"not both": func() error {
			_, err := c.Fork(ctx, threadsocket.ForkParams{LastTurn: "1", BeforeTurn: "1"})
			return err
		},
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	if err := c.Archive(ctx, true); err != nil {
		t.Error(err)
	}
	if _, err = c.Start(ctx, threadsocket.StartParams{Text: "five"}); err == nil || !strings.Contains(err.Error(), "the thread is archived") {
		t.Errorf("a task for an archived thread: %v", err)
	}
	if err := c.Archive(ctx, false); err != nil {
		t.Error(err)
	}
	say(t, th, "five")
	if got := said(t, h, th.ID()); got != "one four five" {
		t.Errorf("in the end: %s", got)
	}
}

// What a client said beside its user's words is taken back with them.
func TestARevertTakesBackWhatClientsSaid(t *testing.T) {
	opts := optionsWith(t, "library", recite)
	h, th := started(t, opts, "one")
	c := dialled(t, opts, th.ID())
	tell := func(task, file string) {
		t.Helper()
		sub, err := th.Subscribe(t.Context(), thread.Lossless)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		a, err := c.Start(t.Context(), threadsocket.StartParams{Text: task, AdditionalContext: map[string]threadsocket.AdditionalContext{"file": {Value: file}}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			e, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := e.Body.(event.TurnEnded); ok && e.Turn == a.Turn {
				return
			}
		}
	}
	told := func() string {
		st, err := thread.Rebuild(h.Store().EffectiveEvents(t.Context(), th.ID(), 0))
		if err != nil {
			t.Fatal(err)
		}
		return prompt.External(st.ContextState)["file"]
	}
	tell("two", "a.go")
	tell("three", "b.go")
	if _, err := c.Rollback(t.Context(), threadsocket.RollbackParams{Turns: 1}); err != nil || told() != "a.go" {
		t.Errorf("%v, the model knows of %q", err, told())
	}
	say(t, th, "four")
	if told() != "a.go" {
		t.Errorf("in the next turn it is told %q", told())
	}
}

// A thread that is not stored becomes a stored one by being forked, with the artifacts that it mentions.
func TestForkOfAnEphemeralThread(t *testing.T) {
	opts := optionsWith(t, "library", recite)
	opts.Ephemeral = true
	h, th := started(t, opts, "one")
	ref, err := h.Store().PutArtifact(t.Context(), "text/plain", "f", strings.NewReader("kept"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := th.Publish(t.Context(), "", event.Notice{Text: "see " + ref.SHA256}); err != nil {
		t.Fatal(err)
	}
	c := dialled(t, opts, th.ID())
	for what, err := range map[string]error{
		"rollback": func() error { _, err := c.Rollback(t.Context(), threadsocket.RollbackParams{Turns: 1}); return err }(),
		"archive":  c.Archive(t.Context(), true),
	} {
		if err == nil || !strings.Contains(err.Error(), "is ephemeral") {
			t.Errorf("%s: %v", what, err)
		}
	}
	fork, err := c.Fork(t.Context(), threadsocket.ForkParams{})
	if err != nil {
		t.Fatal(err)
	}
	opts.Ephemeral = false
	again, err := host.New(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := said(t, again, fork.Thread); got != "one" {
		t.Errorf("the fork has %s", got)
	}
	if content, err := again.Store().Artifact(t.Context(), ref.SHA256); err != nil {
		t.Errorf("its artifact: %v", err)
	} else if err := content.Close(); err != nil {
		t.Error(err)
	}
	if refs, err := again.Store().ThreadArtifacts(t.Context(), fork.Thread); err != nil || len(refs) != 1 {
		t.Errorf("its artifacts: %+v, %v", refs, err)
	}
	resumed, err := again.ResumeThread(t.Context(), fork.Thread)
	if err != nil {
		t.Fatal(err)
	}
	say(t, resumed, "two")
}
