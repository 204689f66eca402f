package host

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usershell"
)

// openFeatures makes what stands on threads.
func (h *Host) openFeatures() (err error) {
	h.shell, err = usershell.New(usershell.Config{
		Spawn:     func(ctx context.Context, s launch.Spec) (usershell.Process, error) { return h.launcher.Spawn(ctx, s) },
		Processes: h.launcher, Tokens: h.tokens, Environ: h.environ.User, Output: h.outputOf,
		Redact: h.redactor(), Logger: h.log.Named("command"),
	})
	h.reviewer = review.New(review.Config{
		Open: h.openReviewer, Git: h.git, Denied: h.denied, Logger: h.log.Named("review"),
	})
	return err
}

// Shell runs commands of the user.
func (h *Host) Shell() *usershell.Shell { return h.shell }

// Reviewer reviews changes.
func (h *Host) Reviewer() *review.Reviewer { return h.reviewer }

// outputOf is how much of an output the model reads that a thread asked last.
func (h *Host) outputOf(id event.ThreadID) history.Policy {
	h.mu.Lock()
	r := h.mu.threads[id]
	h.mu.Unlock()
	if r != nil {
		if s := r.sample.Load(); s != nil {
			return history.PolicyOf(s.Row)
		}
	}
	return history.Policy{Limit: callCaps.MaxModelTokens}
}

// openReviewer starts the thread of a reviewer that works for parent.
func (h *Host) openReviewer(ctx context.Context, parent *thread.Thread, follow func(context.Context, event.Body)) (*child.Child, error) {
	model, err := h.models.Find(cmp.Or(h.opts.Config.Review.Model, parent.Model().Model))
	if err != nil {
		return nil, err
	}
	set := parent.Settings()
	as := child.Role{Unattended: true, Approval: cmp.Or(set.Approval, h.opts.Config.Approval.Policy), NoHostedTools: true}
	// "untrusted" asks before everything. Reads in a read-only sandbox need no question.
	if as.Approval == string(policy.Untrusted) && h.launcher.Check(grants.For(h.opts.Config, box.ReadOnly, set.Cwd, "")) == nil {
		as.Approval, as.Sandbox = string(policy.OnRequest), box.ReadOnly
	}
	return child.Open(ctx, h.openChild, parent, child.Spec{
		Name: "the reviewer", Source: event.SourceReviewer, Model: modelset.Selection(model), Instructions: review.Rubric(), Role: as, Follow: follow,
	})
}

// git runs the user's git for what it prints. A repository can name programs that git starts, so it runs in a box that keeps
// everything as it is and has no network. Where no box can be made it runs without one: then what it starts is left to its caller, and
// it gets nothing from remotes. A repository's language is not the user's.
func (h *Host) git(ctx context.Context, dir string, args ...string) (out review.Output, confined bool, err error) {
	env := h.environ.User()
	program, path, err := ownProgram("git", dir, environ.Lookup(env, "PATH"))
	if err != nil {
		return out, false, err
	}
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
	g := launch.Grant{Mode: box.ReadOnly}
	err = h.launcher.Check(g)
	if err == nil {
		err = h.sandbox.Try(ctx, g.Mode)
	}
	if confined = err == nil; !confined {
		h.log.Warn("git looks at the repository without a sandbox", "folder", dir, "err", err)
		g, env = launch.Grant{Mode: launch.FullAccess}, append(env, "PATH="+path)
	}
	printed, err := h.shell.Ask(ctx, g, dir, env, append([]string{program}, args...)...)
	return review.Output(printed), confined, err
}

// ownProgram is where the user's PATH has a program, and what of PATH may be searched: neither relative folders nor those of the
// project that dir is in, whose files anyone may have written.
func ownProgram(name, dir, path string) (program, rest string, err error) {
	project := dir
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			project = d
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	if real, err := filepath.EvalSymlinks(project); err == nil {
		project = real
	}
	var own []string
	for _, entry := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(entry)
		if err != nil || !filepath.IsAbs(entry) || grants.Inside(real, project) {
			continue
		}
		own = append(own, entry)
		p := filepath.Join(entry, name)
		if to, err := filepath.EvalSymlinks(p); program == "" && err == nil && !grants.Inside(to, project) {
			if found, err := exec.LookPath(p); err == nil {
				program = found
			}
		}
	}
	if program == "" {
		return "", "", hint.With(fmt.Errorf("%s is not found in a folder of PATH that is absolute and outside of %s", name, project), "install it")
	}
	return program, strings.Join(own, string(filepath.ListSeparator)), nil
}
