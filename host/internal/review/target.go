package review

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/history"
)

// Kind is the kind of a target.
type Kind string

// The kinds of targets. The names are those of codex's app server.
const (
	Uncommitted Kind = "uncommittedChanges" // staged, changed and new files in the working tree
	BaseBranch  Kind = "baseBranch"         // the differences between the working tree and a branch
	Commit      Kind = "commit"
	Custom      Kind = "custom" // described by the instructions
)

// Target is what is reviewed.
type Target struct {
	Kind         Kind   `json:"type"`
	Branch       string `json:"branch,omitempty"`       // of BaseBranch
	SHA          string `json:"sha,omitempty"`          // of Commit; or another name for a commit
	Instructions string `json:"instructions,omitempty"` // of Custom
}

// subject is the question about a target.
type subject struct {
	hint   string // a name for people
	prompt string // the question for the reviewer
}

// shownDiff is the maximum size of the diff in the question, in bytes. The reviewer looks up the rest, and the files around the
// change.
const shownDiff = 64 << 10

// subject examines a target.
func (r *Reviewer) subject(ctx context.Context, dir string, t Target) (subject, error) {
	switch t.Kind {
	case Uncommitted, BaseBranch, Commit:
	case Custom:
		if strings.TrimSpace(t.Instructions) == "" {
			return subject{}, hint.New("there is nothing to review: the instructions are empty", "describe what to review")
		}
		return subject{hint: firstLine(t.Instructions), prompt: t.Instructions}, nil
	default:
		return subject{}, hint.With(fmt.Errorf("invalid kind of review %q", t.Kind), fmt.Sprintf("use %s, %s, %s or %s", Uncommitted, BaseBranch, Commit, Custom))
	}
	g := git{run: r.cfg.Git, denied: r.cfg.Denied, ctx: ctx, dir: dir}
	if _, err := g.ask("rev-parse", "--git-dir"); err != nil {
		return subject{}, hint.With(fmt.Errorf("%s can't be reviewed: %w", dir, err), "name a folder of a git repository, or describe what to review")
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

// git runs the user's git. None of the commands change the repository. A repository's settings and attributes can name programs:
// most are disabled by flags or settings; filters run only if they are confined.
type git struct {
	run    Git
	denied func(dir, path string) bool
	ctx    context.Context
	dir    string
	with   []string // settings that let filters fail
	off    []string // settings that disable filters
}

// settled are settings that prevent git from starting programs. Other ways to start programs are disabled for each command: see
// [git.diff].
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

// filters finds the filters in the configuration. A filter that fails, for example because it can't write, is left out. If git is
// not confined, no filters run, and filtered files are shown as they are in the working tree.
func (g *git) filters() error {
	out, confined, err := g.run(g.ctx, g.dir, slices.Concat(settled, []string{"config", "-z", "--name-only", "--get-regexp", `^filter\.`})...)
	if err != nil {
		return fmt.Errorf("run git: %w", err)
	}
	for key := range strings.SplitSeq(out.Stdout, "\x00") { // git prints nothing if there are no filters
		i := strings.LastIndexByte(key, '.')
		switch {
		case !strings.HasPrefix(key, "filter.") || i < len("filter."):
			continue
		case !strings.Contains(key, "="):
		case confined:
			continue
		default: // the name ends there for -c
			return hint.With(fmt.Errorf("the setting %q of the git configuration can't be disabled, and git runs without a sandbox here", key),
				"rename it, or make the sandbox work: `gantry doctor`")
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

// change is a diff without the files that the reviewer must not read.
type change struct {
	diff    string
	leftOut []string // paths relative to the top of the working tree
}

// maxLeftOut limits the names of files that are left out, in bytes, because they are arguments of git.
const maxLeftOut = 64 << 10

// diff returns a diff.
func (g git) diff(command string, args ...string) (change, error) {
	names, err := g.compare(append([]string{command, "--name-only", "-z", "--no-renames"}, args...))
	if err != nil {
		return change{}, err
	}
	top, err := g.ask("rev-parse", "--show-toplevel")
	if err != nil { // not in a working tree
		top = g.dir
	}
	var c change
	without, size := []string{"--", ":(top)"}, 0
	for name := range strings.SplitSeq(names, "\x00") {
		if name == "" || !g.hides(filepath.Join(top, name)) {
			continue
		}
		c.leftOut = append(c.leftOut, name)
		without = append(without, ":(top,exclude,literal)"+name)
		size += len(name)
	}
	switch {
	case size > maxLeftOut:
		return c, hint.With(fmt.Errorf("sandbox { deny_read } names %d files of this change, too many to leave out", len(c.leftOut)),
			"say in words what is to be reviewed")
	case size == 0:
		without = nil
	}
	c.diff, err = g.compare(slices.Concat([]string{command}, args, without))
	return c, err
}

// compare runs a command that compares files. It retries without filters that make git fail.
func (g git) compare(args []string) (string, error) {
	args = slices.Concat(args[:1], []string{"--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=dirty"}, args[1:])
	out, err := g.ask(args...)
	if err != nil && len(g.off) > len(g.with) {
		g.with = g.off
		return g.ask(args...)
	}
	return out, err
}

// hides reports whether the reviewer must not read a file, by its name in git or in the folder.
func (g git) hides(path string) bool {
	if g.denied(g.dir, path) {
		return true
	}
	real, err := filepath.EvalSymlinks(g.dir)
	if err != nil {
		return true
	}
	rel, err := filepath.Rel(real, path)
	return err != nil || g.denied(g.dir, filepath.Join(g.dir, rel))
}

// added returns the untracked files, without those that the reviewer must not read.
func (g git) added() (shown, leftOut []string, err error) {
	out, err := g.ask("ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, nil, err
	}
	for name := range strings.SplitSeq(out, "\x00") {
		switch {
		case name == "":
		case g.hides(filepath.Join(g.dir, name)):
			leftOut = append(leftOut, name)
		default:
			shown = append(shown, quoted(name))
		}
	}
	return shown, leftOut, nil
}

// quoted returns a name on one line.
func quoted(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// emptyTree is the object that the first commit of a repository is compared with.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func (g git) uncommitted() (subject, error) {
	from := "HEAD"
	if _, err := g.ask("rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		from = emptyTree
	}
	c, err := g.diff("diff", from)
	if err != nil {
		return subject{}, err
	}
	added, hidden, err := g.added()
	if err != nil {
		return subject{}, err
	}
	c.leftOut = append(c.leftOut, hidden...)
	if c.diff == "" && len(added) == 0 {
		return subject{}, hint.With(c.nothing("the working tree has no uncommitted changes"), "use --base BRANCH or --commit SHA")
	}
	question := "Review what is changed in the working tree and not committed: what is staged, what is not, and files that are new to git."
	if len(added) > 0 {
		question += "\n\nNew files, which the change below does not show:\n\n" + history.Truncate(strings.Join(added, "\n"), history.Policy{Bytes: true, Limit: shownDiff / 8})
	}
	return subject{hint: "uncommitted changes", prompt: question + c.below("git diff "+from)}, nil
}

func (g git) beyond(branch string) (subject, error) {
	if err := g.known(branch, "branch"); err != nil {
		return subject{}, err
	}
	base, err := g.ask("merge-base", "HEAD", branch)
	if err != nil {
		return subject{}, hint.With(fmt.Errorf("HEAD and %q have no commit in common", branch), "name the branch that the work started from")
	}
	c, err := g.diff("diff", base)
	if err != nil {
		return subject{}, err
	}
	if c.diff == "" {
		return subject{}, c.nothing(fmt.Sprintf("the working tree is the same as where it left %q", branch))
	}
	return subject{
		hint: fmt.Sprintf("changes against %s", branch),
		prompt: fmt.Sprintf("Review what this branch has beyond %q. They parted at commit %s: what is in the working tree now and was not there then is "+
			"the change.", branch, base) + c.below("git diff "+base),
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
	c, err := g.diff("show", "--no-show-signature", "--cc", "--format=", sha)
	if err != nil {
		return subject{}, err
	}
	if c.diff == "" && len(c.leftOut) > 0 {
		return subject{}, c.nothing("")
	}
	return subject{
		hint:   fmt.Sprintf("commit %.10s: %s", sha, title),
		prompt: fmt.Sprintf("Review the commit %s (%q).", sha, title) + c.below("git show "+sha),
	}, nil
}

// known returns an error for names that git does not know or would parse as an option.
func (g git) known(name, what string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return hint.With(fmt.Errorf("the name of the %s is empty", what), "name one")
	case strings.HasPrefix(name, "-"):
		return hint.With(fmt.Errorf("%q is no %s", name, what), "name one")
	}
	if _, err := g.ask("rev-parse", "--verify", "--quiet", name+"^{commit}"); err != nil {
		return hint.With(fmt.Errorf("there is no %s %q here", what, name),
			fmt.Sprintf("`git %s` lists what there is", map[string]string{"branch": "branch --all", "commit": "log --oneline"}[what]))
	}
	return nil
}

// nothing returns the error for an empty change.
func (c change) nothing(why string) error {
	if len(c.leftOut) > 0 {
		why = "only files are changed that sandbox { deny_read } names"
	}
	return errors.New("there is nothing to review: " + why)
}

// below returns the end of a question: the diff, and the files that are left out.
func (c change) below(command string) string {
	text := ""
	if n := len(c.leftOut); n > 0 {
		shown := c.leftOut[:min(n, 10)]
		names := make([]string, len(shown))
		for i, name := range shown {
			names[i] = quoted(name)
		}
		text = "\n\nLeft out, since sandbox { deny_read } names them: " + strings.Join(names, ", ")
		if n > len(shown) {
			text += fmt.Sprintf(" and %d more files", n-len(shown))
		}
		text += "."
	}
	if c.diff == "" {
		return text
	}
	cut := history.Truncate(c.diff, history.Policy{Bytes: true, Limit: shownDiff})
	head := "\n\nThis is the change, as `" + command + "` prints it:\n\n"
	if cut != c.diff {
		head = "\n\nThis is the beginning and the end of the change; `" + command + "` prints all of it:\n\n"
	}
	return text + head + "<diff>\n" + cut + "\n</diff>"
}

// firstLine returns the first line of a text.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 100 {
		line = string(r[:99]) + "…"
	}
	return line
}
