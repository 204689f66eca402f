package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/history"
)

// Kind is what a review is about.
type Kind string

// The kinds of targets; their names are those of codex's app server.
const (
	Uncommitted Kind = "uncommittedChanges" // what is staged, changed and new in the working tree
	BaseBranch  Kind = "baseBranch"         // what the working tree has beyond a branch
	Commit      Kind = "commit"
	Custom      Kind = "custom" // whatever the instructions say
)

// Target names what is reviewed.
type Target struct {
	Kind         Kind   `json:"type"`
	Branch       string `json:"branch,omitempty"`       // of BaseBranch
	SHA          string `json:"sha,omitempty"`          // of Commit; a name for one will do
	Instructions string `json:"instructions,omitempty"` // of Custom
}

// subject is a target that was looked at.
type subject struct {
	hint   string // names it for people
	prompt string // asks the reviewer
}

// shownDiff is how much of a change stands in the question itself, so that the reviewer need not ask for it. What is beyond it,
// and everything around the change, is looked up.
const shownDiff = 64 << 10

// subject looks at a target.
func (r *Reviewer) subject(ctx context.Context, dir string, t Target) (subject, error) {
	switch t.Kind {
	case Uncommitted, BaseBranch, Commit:
	case Custom:
		if strings.TrimSpace(t.Instructions) == "" {
			return subject{}, errors.New("there is nothing to review: the instructions are empty; next: say what is to be reviewed")
		}
		return subject{hint: firstLine(t.Instructions), prompt: t.Instructions}, nil
	default:
		return subject{}, fmt.Errorf("there is no kind of review %q; next: use %s, %s, %s or %s", t.Kind, Uncommitted, BaseBranch, Commit, Custom)
	}
	g := git{run: r.cfg.Git, ctx: ctx, dir: dir}
	if _, err := g.ask("rev-parse", "--git-dir"); err != nil {
		return subject{}, fmt.Errorf("%s can't be reviewed: %w; next: name a folder of a git repository, or say in words what is to be reviewed", dir, err)
	}
	if err := g.filters(); err != nil {
		return subject{}, err
	}
	switch t.Kind {
	case Uncommitted:
		return g.uncommitted()
	case BaseBranch:
		return g.beyond(t.Branch)
	}
	return g.commit(t.SHA)
}

// git asks the user's git. Nothing that it is asked changes the repository. A repository's settings and attributes can name programs:
// those that a flag or a setting turns off don't run, and filters run only where they are confined.
type git struct {
	run  Git
	ctx  context.Context
	dir  string
	with []string // settings under which filters may fail
	off  []string // settings that turn filters off
}

// settled are settings that keep git from starting programs. What else does so is turned off where it is asked: see [git.diff].
var settled = []string{
	"--no-optional-locks", "--no-pager",
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false", "-c", "log.showSignature=false",
}

func (g git) ask(args ...string) (string, error) {
	out, _, err := g.run(g.ctx, g.dir, slices.Concat(settled, g.with, args)...)
	switch {
	case err != nil:
		return "", fmt.Errorf("run git: %w", err)
	case out.Code != 0:
		return "", errors.New(firstLine(strings.TrimPrefix(strings.TrimSpace(out.Stderr), "fatal: ")))
	}
	return strings.TrimRight(out.Stdout, "\n"), nil
}

// filters looks which filters the configuration names. One that fails, for example because it can't write, is left out. Where git is not
// confined none runs, and a file that goes through one is shown as it is in the working tree.
func (g *git) filters() error {
	out, confined, err := g.run(g.ctx, g.dir, slices.Concat(settled, []string{"config", "-z", "--name-only", "--get-regexp", `^filter\.`})...)
	if err != nil {
		return fmt.Errorf("run git: %w", err)
	}
	for key := range strings.SplitSeq(out.Stdout, "\x00") { // of a status other than 0: there are none
		i := strings.LastIndexByte(key, '.')
		switch {
		case !strings.HasPrefix(key, "filter.") || i < len("filter."):
			continue
		case !strings.Contains(key, "="):
		case confined:
			continue
		default: // -c takes it for the end of the name
			return fmt.Errorf("the setting %q of the git configuration can't be turned off, and here git runs without a sandbox; next: rename it, or make the sandbox work: `gantry doctor`", key)
		}
		key = key[:i]
		g.with = append(g.with, "-c", key+".required=false")
		g.off = append(g.off, "-c", key+".required=false", "-c", key+".clean=", "-c", key+".smudge=", "-c", key+".process=")
	}
	if !confined {
		g.with = g.off
	}
	return nil
}

// diff asks for a change as text. A filter can end git, too.
func (g git) diff(command string, args ...string) (string, error) {
	args = append([]string{command, "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=dirty"}, args...)
	out, err := g.ask(args...)
	if err != nil && len(g.off) > len(g.with) {
		g.with = g.off
		return g.ask(args...)
	}
	return out, err
}

// emptyTree is what a repository without commits differs from.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func (g git) uncommitted() (subject, error) {
	from := "HEAD"
	if _, err := g.ask("rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		from = emptyTree
	}
	diff, err := g.diff("diff", from)
	if err != nil {
		return subject{}, err
	}
	added, err := g.ask("ls-files", "--others", "--exclude-standard")
	if err != nil {
		return subject{}, err
	}
	if diff == "" && added == "" {
		return subject{}, errors.New("there is nothing to review: the working tree has no uncommitted changes; next: use --base BRANCH or --commit SHA")
	}
	question := "Review what is changed in the working tree and not committed: what is staged, what is not, and files that are new to git."
	if added != "" {
		question += "\n\nNew files, which the change below does not show:\n\n" + history.Truncate(added, history.Policy{Bytes: true, Limit: shownDiff / 8})
	}
	return subject{hint: "uncommitted changes", prompt: question + withDiff("git diff "+from, diff)}, nil
}

func (g git) beyond(branch string) (subject, error) {
	if err := g.known(branch, "branch"); err != nil {
		return subject{}, err
	}
	base, err := g.ask("merge-base", "HEAD", branch)
	if err != nil {
		return subject{}, fmt.Errorf("HEAD and %q have no commit in common; next: name the branch that the work began on", branch)
	}
	diff, err := g.diff("diff", base)
	if err != nil {
		return subject{}, err
	}
	if diff == "" {
		return subject{}, fmt.Errorf("there is nothing to review: the working tree is the same as where it left %q", branch)
	}
	return subject{
		hint: fmt.Sprintf("changes against %s", branch),
		prompt: fmt.Sprintf("Review what this branch has beyond %q. They parted at commit %s: what is in the working tree now and was not there then is "+
			"the change.", branch, base) + withDiff("git diff "+base, diff),
	}, nil
}

func (g git) commit(name string) (subject, error) {
	if err := g.known(name, "commit"); err != nil {
		return subject{}, err
	}
	line, err := g.ask("log", "-1", "--no-color", "--no-show-signature", "--format=%H %s", name)
	if err != nil {
		return subject{}, err
	}
	sha, title, _ := strings.Cut(line, " ")
	diff, err := g.diff("show", "--no-show-signature", "--cc", "--format=", sha)
	if err != nil {
		return subject{}, err
	}
	return subject{
		hint:   fmt.Sprintf("commit %.10s: %s", sha, title),
		prompt: fmt.Sprintf("Review the commit %s (%q).", sha, title) + withDiff("git show "+sha, diff),
	}, nil
}

// known refuses names that git does not know, and those that it would take for an option.
func (g git) known(name, what string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("the name of the %s is empty; next: name one", what)
	case strings.HasPrefix(name, "-"):
		return fmt.Errorf("%q is no %s; next: name one", name, what)
	}
	if _, err := g.ask("rev-parse", "--verify", "--quiet", name+"^{commit}"); err != nil {
		return fmt.Errorf("there is no %s %q here; next: `git %s` lists what there is", what, name, map[string]string{"branch": "branch --all", "commit": "log --oneline"}[what])
	}
	return nil
}

// withDiff puts a change below a question.
func withDiff(command, diff string) string {
	if diff == "" {
		return ""
	}
	cut := history.Truncate(diff, history.Policy{Bytes: true, Limit: shownDiff})
	head := "\n\nThis is the change, as `" + command + "` prints it:\n\n"
	if cut != diff {
		head = "\n\nThis is the beginning and the end of the change; `" + command + "` prints all of it:\n\n"
	}
	return head + "<diff>\n" + cut + "\n</diff>"
}

// firstLine is what of a text stands in one line.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 100 {
		line = string(r[:99]) + "…"
	}
	return line
}
