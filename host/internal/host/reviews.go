package host

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/git"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/usershell"
)

// openFeatures creates the features that work with threads.
func (h *Host) openFeatures() (err error) {
	h.shell, err = usershell.New(usershell.Config{
		Spawn:     func(ctx context.Context, s launch.Spec) (usershell.Process, error) { return h.launcher.Spawn(ctx, s) },
		Processes: h.launcher, Tokens: h.tokens, Environ: h.environ.User, Output: h.outputOf,
		Redact: h.redactor(), Logger: h.log.Named("command"),
	})
	repo := &git.Git{Launcher: h.launcher, Sandbox: h.sandbox, Shell: h.shell, Environ: h.environ.User, Logger: h.log}
	h.reviewer = review.New(review.Config{
		Open: h.judges.Reviewer, Git: repo.Run, Denied: h.denied, Logger: h.log.Named("review"),
	})
	return err
}

// Shell returns the runner of the user's own commands.
func (h *Host) Shell() *usershell.Shell { return h.shell }

// Reviewer returns the reviewer of changes.
func (h *Host) Reviewer() *review.Reviewer { return h.reviewer }

// outputOf returns how outputs are truncated for the model that a thread asked last.
func (h *Host) outputOf(id event.ThreadID) history.Policy {
	if r, err := h.running(id); err == nil {
		if s := r.sample.Load(); s != nil {
			return history.PolicyOf(s.Row)
		}
	}
	return history.Policy{Limit: callCaps.MaxModelTokens}
}
