// Package git runs the user's git on repositories that may be hostile.
//
// It owns: which git program is trusted, and how it is confined. It must not know: what the output is for.
//
// Start with [Git.Run].
package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/usershell"
	"github.com/hashicorp/go-hclog"
)

// Git runs the user's git.
type Git struct {
	Launcher *launch.Launcher
	Sandbox  *grants.Checker
	Shell    *usershell.Shell
	Environ  func() []string // of programs that the user named
	Logger   hclog.Logger
}

// Run runs git in a folder and returns its output. confined reports whether it ran in a sandbox, which is read-only and has no network,
// because a repository can name programs that git starts. Without a sandbox, the caller must avoid commands that start programs, and git
// fetches nothing from remotes. Messages are in English, whatever the user's language.
func (g *Git) Run(ctx context.Context, dir string, args ...string) (out review.Output, confined bool, err error) {
	env := g.Environ()
	program, path, err := ownProgram("git", dir, environ.Lookup(env, "PATH"))
	if err != nil {
		return out, false, err
	}
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
	grant := launch.Grant{Mode: box.ReadOnly}
	err = g.Launcher.Check(grant)
	if err == nil {
		err = g.Sandbox.Try(ctx, grant.Mode)
	}
	if confined = err == nil; !confined {
		g.Logger.Warn("git looks at the repository without a sandbox", "folder", dir, "err", err)
		grant, env = launch.Grant{Mode: launch.FullAccess}, append(env, "PATH="+path)
	}
	printed, err := g.Shell.Ask(ctx, grant, dir, env, append([]string{program}, args...)...)
	return review.Output(printed), confined, err
}

// ownProgram finds a program in the user's PATH, and returns the part of PATH that is safe to search: without relative folders, and
// without folders of the project that contains dir, because anyone may have written its files.
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
		return "", "", hint.With(fmt.Errorf("%s was not found in PATH (relative folders and folders in %s are not searched)", name, project), "install it")
	}
	return program, strings.Join(own, string(filepath.ListSeparator)), nil
}
