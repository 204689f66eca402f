package thread

import (
	"cmp"
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Change is what a user changes in a thread between two turns. Empty fields change nothing.
type Change struct {
	Model     string // as a user names it
	Cwd       string // absolute
	Reasoning string // reasoning effort
	// Approval and Sandbox apply as long as this host runs the thread.
	Approval, Sandbox string
}

// Settings returns the thread's settings, including its working folder.
func (t *Thread) Settings() event.Settings {
	s := *t.settings.Load()
	s.Cwd = cmp.Or(s.Cwd, t.Started().Cwd)
	return s
}

// With returns the settings after the change.
func (c Change) With(s event.Settings) event.Settings {
	if c.Model != "" {
		s.Reasoning = "" // each model has its own efforts
	}
	return event.Settings{
		Model: cmp.Or(c.Model, s.Model), Cwd: cmp.Or(c.Cwd, s.Cwd), Reasoning: cmp.Or(c.Reasoning, s.Reasoning),
		Approval: cmp.Or(c.Approval, s.Approval), Sandbox: cmp.Or(c.Sandbox, s.Sandbox),
	}
}

func (t *Thread) check(ctx context.Context, c Change) error {
	if c == (Change{}) {
		return nil
	}
	return t.cfg.Engine.Check(ctx, t, c)
}

// Configure changes the settings of later turns and returns when they apply. A running turn keeps its settings.
func (t *Thread) Configure(ctx context.Context, c Change) error {
	if err := t.check(ctx, c); err != nil || c == (Change{}) {
		return err
	}
	changed := make(chan error, 1)
	_, err := t.submit(ctx, submitMsg{maintenance: func(ctx context.Context) { changed <- t.change(ctx, c) }})
	if err != nil {
		return err
	}
	return <-changed // this is brief
}

// change publishes and applies a change. The caller owns the history.
func (t *Thread) change(ctx context.Context, c Change) error {
	is := c.With(t.Settings())
	if is == t.Settings() {
		return nil
	}
	if _, err := t.bus.Publish(ctx, "", event.SettingsChanged{Settings: is}); err != nil {
		return err
	}
	t.settings.Store(&is)
	return nil
}

// Wait says that a person waits for the thread's answers and can stop it, until the returned function is called.
func (t *Thread) Wait() (leave func()) {
	t.people.Add(1)
	return func() { t.people.Add(-1) }
}

// Waiting reports whether such a person is there.
func (t *Thread) Waiting() bool { return t.people.Load() > 0 }
