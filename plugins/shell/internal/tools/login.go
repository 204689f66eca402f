package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/plugins/shell/internal/shell"
	"github.com/gantry-agent/gantry/plugins/shell/internal/snapshot"
	"github.com/gantry-agent/gantry/sdk/process/shellstate"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// plainText contains variables that make programs write plain text and use no pager. The profile can't override them.
var plainText = []string{
	"NO_COLOR=1", "TERM=dumb", "COLORTERM=", "LANG=C.UTF-8", "LC_CTYPE=C.UTF-8", "LC_ALL=C.UTF-8",
	"PAGER=cat", "GIT_PAGER=cat", "GH_PAGER=cat",
}

// environment returns the variables that commands get in addition to those of the grant. They identify the thread and the call.
func environment(c *tool.Call) []string {
	return append(slices.Clone(plainText), "GANTRY_CI=1", "GANTRY_THREAD_ID="+c.ThreadID(), "GANTRY_TOOL_CALL_ID="+c.ID(),
		"GANTRY_VERSION="+c.Env().HostVersion)
}

// login returns the command line and environment of a command. A login shell is replaced by a shell that restores the snapshot of a
// login, if there is one. A command that was approved for more than its sandbox is not changed, and reads the profile itself.
func (f *shellPlugin) login(ctx context.Context, c *tool.Call, cmd *command) (argv, env []string) {
	env = environment(c)
	if !cmd.login || cmd.shell.Kind != shell.POSIX || cmd.escalated || len(cmd.additional) > 0 {
		return cmd.argv, env
	}
	if s := f.state(ctx, c, cmd); s != nil {
		return s.Argv(cmd.text), append(env, s.Env()...)
	}
	behind := shellstate.Names(1)[0] + "=export " + strings.Join(plainText, " ")
	return cmd.shell.Argv(shellstate.Script(1, cmd.text), true), append(env, behind)
}

// profiles matches the names of files that a login shell reads.
var profiles = regexp.MustCompile(`\.(profile|bash_profile|bash_login|bashrc|bash_aliases|zshenv|zprofile|zshrc|zlogin|zsh_aliases)\b|/etc/(profile|bash|zsh|zprofile)`)

// state returns the snapshot for a command, taking it if necessary; nil if there is none.
func (f *shellPlugin) state(ctx context.Context, c *tool.Call, cmd *command) *snapshot.State {
	if !f.config.Snapshot || !snapshot.Supported(cmd.shell.Path) {
		return nil
	}
	if profiles.MatchString(cmd.text) { // it may change the profile
		f.snapshots.Forget()
		return nil
	}
	g := c.Grant()
	key := snapshot.Key{
		Shell: cmd.shell.Path, Cwd: cmd.cwd, Grant: fmt.Sprint(g.SandboxMode, g.Network, cmd.escalated, g.WritableRoots),
	}
	return f.snapshots.Get(ctx, key, func(ctx context.Context) (*snapshot.State, error) {
		return snapshot.Take(ctx, cmd.shell.Path, func(ctx context.Context, argv, more []string) ([]byte, error) {
			return capture(ctx, c, cmd.cwd, argv, more)
		})
	})
}

// maxCapture limits the output of the commands of a snapshot. It is much larger than a snapshot.
const maxCapture = 4 << 20

// capture runs a program with the call's grant, like the command itself, and returns its output.
func capture(ctx context.Context, c *tool.Call, dir string, argv, env []string) ([]byte, error) {
	var out limitedBuffer
	p := c.Command(ctx, argv...)
	p.Dir, p.Env, p.Stdout = dir, append(environment(c), env...), &out
	if err := p.Run(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// limitedBuffer rejects more than maxCapture bytes.
type limitedBuffer struct{ bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxCapture {
		return 0, errors.New("too much output")
	}
	return l.Buffer.Write(p)
}

// changed drops all snapshots if a plan has changed a profile.
func (f *shellPlugin) changed(plan *patch.Plan) {
	for _, path := range plan.Paths() {
		if profiles.MatchString(filepath.ToSlash(path)) {
			f.snapshots.Forget()
		}
	}
}
