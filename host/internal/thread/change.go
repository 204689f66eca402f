package thread

import (
	"cmp"
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Change is what a user changes of a thread between two turns. What is empty stays.
type Change struct {
	Model     string // as a user names it
	Cwd       string // absolute
	Reasoning string // effort of the model
	// Approval and Sandbox hold as long as this host runs the thread.
	Approval, Sandbox string
}

// Settings are the thread's, with the folder it works in.
func (t *Thread) Settings() event.Settings {
	s := *t.settings.Load()
	s.Cwd = cmp.Or(s.Cwd, t.Started().Cwd)
	return s
}

// With are the settings after a change.
func (c Change) With(s event.Settings) event.Settings {
	if c.Model != "" {
		s.Reasoning = "" // other models have other efforts
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

// Configure changes the thread's settings for the turns to come, and returns when they hold: a turn that runs ends with those
// that it began with.
func (t *Thread) Configure(ctx context.Context, c Change) error {
	if err := t.check(ctx, c); err != nil || c == (Change{}) {
		return err
	}
	changed := make(chan error, 1)
	_, err := t.submit(ctx, submitMsg{errand: func(ctx context.Context) { changed <- t.change(ctx, c) }})
	if err != nil {
		return err
	}
	return <-changed // it takes moments
}

// change publishes a change and makes it hold. It belongs to who owns the history.
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

// Wait says that a person is there who waits for the thread's answers and can stop it, until the returned function is called.
func (t *Thread) Wait() (leave func()) {
	t.people.Add(1)
	return func() { t.people.Add(-1) }
}

// Waiting reports whether such a person is there.
func (t *Thread) Waiting() bool { return t.people.Load() > 0 }
