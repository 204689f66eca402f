package safety

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/diff"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/spf13/cobra"
)

func (a *app) trustCommand() *cobra.Command {
	var revoke, list, yes, asJSON bool
	cmd := &cobra.Command{
		Use: "trust [flags] [DIR]", Short: "Trust a project's configuration", Args: console.Takes(0, 1, "DIR"),
		Long: "A project's .gantry/gantry.hcl can start programs and change their permissions, so gantry ignores it until you trust it.\n" +
			"trust shows the configuration, rules and lock file of the project that contains DIR (default: this folder), with the files\n" +
			"that it reads with file() and runs with command(), asks for confirmation, and stores the answer for exactly this content.\n" +
			"After a change, it shows the differences from what you trusted. Changes that give the project more power are listed first\n" +
			"and marked with \"!\".",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			home, err := a.Home()
			if err != nil {
				return err
			}
			if list {
				if len(args) > 0 {
					return console.UsageError{Text: "--list takes no DIR", Next: "remove one of them"}
				}
				return a.listTrusted(home, asJSON)
			}
			dir, err := a.WorkDir(append(args, "")[0])
			if revoke && err != nil && len(args) > 0 {
				dir, err = filepath.Abs(args[0]) // the folder may no longer exist
			}
			if err != nil {
				return err
			}
			if revoke {
				return a.revoke(ctx, home, dir)
			}
			return a.trust(ctx, home, dir, yes)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&revoke, "revoke", false, "revoke trust")
	fs.BoolVar(&list, "list", false, "list trusted projects")
	fs.BoolVarP(&yes, "yes", "y", false, "trust it without confirmation")
	fs.BoolVar(&asJSON, "json", false, "with --list: print JSON")
	console.Exclusive(cmd, "revoke", "list", "yes")
	return cmd
}

func (a *app) listTrusted(home string, asJSON bool) error {
	projects, err := trust.Open(home).List()
	if err != nil {
		return err
	}
	if asJSON {
		if projects == nil {
			projects = []trust.Project{}
		}
		return a.PrintJSON(projects)
	}
	if len(projects) == 0 {
		fmt.Fprintln(a.Stderr, "no project is trusted")
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PROJECT\tSINCE\tNOW")
	for _, t := range projects {
		fmt.Fprintf(w, "%s\t%s\t%s\n", render.Clean(t.Dir), t.At.Local().Format(time.DateTime), standing(t, home))
	}
	return w.Flush()
}

// standing reports whether a project is still trusted.
func standing(t trust.Project, home string) string {
	p, err := config.FindProject(t.Dir, home)
	switch {
	case err != nil:
		return "can't be read"
	case p == nil || p.Dir != t.Dir:
		return "no longer has a configuration"
	case p.Digest != t.Digest:
		return "has changed: not trusted"
	}
	return "unchanged"
}

func (a *app) revoke(ctx context.Context, home, dir string) error {
	if p, err := config.FindProject(dir, home); err == nil && p != nil {
		dir = p.Dir
	}
	store := trust.Open(home)
	removed, err := store.Remove(ctx, dir)
	if err == nil {
		err = store.Forget(dir)
	}
	if err != nil {
		return err
	}
	if !removed {
		return hint.With(fmt.Errorf("%s is not trusted", dir), "see `gantry trust --list`")
	}
	fmt.Fprintln(a.Stdout, "no longer trusted:", dir)
	return nil
}

func (a *app) trust(ctx context.Context, home, dir string, yes bool) error {
	p, err := config.FindProject(dir, home)
	if err != nil {
		return err
	}
	if p == nil {
		return hint.With(fmt.Errorf("neither %s nor a parent folder has a .gantry/gantry.hcl or .gantry/rules", dir), "`gantry init --project` creates one")
	}
	store := trust.Open(home)
	if _, err := store.List(); err != nil {
		return err
	}
	if store.Trusted(p.Dir, p.Digest) {
		fmt.Fprintln(a.Stdout, "trusted already:", p.Dir)
		return nil
	}
	texts, err := a.showProject(p, home, store.Shown(p.Dir))
	if err != nil {
		return err
	}
	if !yes && !a.Confirm(ctx, fmt.Sprintf("Trust this configuration in %s?", p.Dir)) {
		if !a.Terminal() {
			return hint.With(fmt.Errorf("%s was not trusted: no terminal to ask on", p.Dir), "review it, then run it with --yes")
		}
		return fmt.Errorf("%s was not trusted", p.Dir)
	}
	if err := store.Add(ctx, p.Dir, p.Digest); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, "trusted:", p.Dir)
	return store.Remember(p.Dir, texts)
}

// showProject prints what would be trusted. For files that were trusted before, it prints only the changes. It returns the texts:
// trust applies to exactly what is shown, even if the files change meanwhile.
func (a *app) showProject(p *config.Project, home string, before map[string]string) (texts map[string]string, err error) {
	texts = map[string]string{}
	marks := a.grants(p, home, before)
	a.summarize(marks)
	for _, s := range p.Shown() {
		switch name := a.Shown(s.Path); {
		case s.Err != nil:
			fmt.Fprintf(a.Stdout, "--- %s: can't be read: %s\n", render.Plain(name), render.Plain(s.Err.Error()))
		case s.Hidden:
			fmt.Fprintf(a.Stdout, "--- %s: read by file(), not shown because it may be a key\n", render.Plain(name))
		case strings.ContainsRune(s.Text, 0):
			fmt.Fprintf(a.Stdout, "--- %s: a program, %d bytes\n", render.Plain(name), len(s.Text))
		default:
			texts[s.Path] = s.Text
			was, known := before[s.Path]
			a.showText(render.Plain(name), was, s.Text, known, marks.of(s.Path))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, still := texts[path]; !still {
			fmt.Fprintf(a.Stdout, "--- %s: no longer part of it\n", render.Plain(a.Shown(path)))
		}
	}
	for _, gap := range p.Gaps {
		fmt.Fprintln(a.Stdout, "! will not run:", render.Plain(gap))
	}
	now, err := config.FindProject(p.Dir, home)
	if err != nil {
		return nil, err
	}
	if now == nil || now.Digest != p.Digest {
		return nil, hint.New("the configuration has changed while it was shown", "run the command again")
	}
	return texts, nil
}

// marks are the changes that widen what the project may do.
type marks []config.Grant

func (m marks) of(path string) marks {
	return slices.DeleteFunc(slices.Clone(m), func(g config.Grant) bool { return g.Path != path })
}

// gutter returns the prefix of a line; removed is set for lines of the previous text. It works without colour.
func (m marks) gutter(line int, removed bool) string {
	switch {
	case len(m) == 0:
		return ""
	case slices.ContainsFunc(m, func(g config.Grant) bool { return g.Line == line && g.Removed == removed }):
		return "! "
	}
	return "  "
}

// grants compares a project with what was trusted before.
func (a *app) grants(p *config.Project, home string, before map[string]string) marks {
	out := p.Grants(config.Options{Home: home, NoUser: a.Flags.NoUser, LookupEnv: a.LookupEnv, System: a.SystemConfig()}, before)
	var was, is []rules.Source
	for _, f := range p.Rules {
		is = append(is, rules.Source{Path: f.Path, Text: f.Text})
	}
	for path, text := range before {
		if filepath.Ext(path) == ".rules" {
			was = append(was, rules.Source{Path: path, Text: text})
		}
	}
	now, err := rules.Load(is)
	if err != nil { // then commands need approval
		return out
	}
	earlier, _ := rules.Load(was) // unreadable previous rules: every rule counts as new
	for _, c := range now.Wider(earlier) {
		out = append(out, config.Grant(c))
	}
	return out
}

// maxSummary limits the grants in the summary.
const maxSummary = 30

// summarize prints the changes that widen what the project may do.
func (a *app) summarize(m marks) {
	switch len(m) {
	case 0:
		return
	case 1:
		fmt.Fprintln(a.Stdout, "1 change gives this project more power:")
	default:
		fmt.Fprintf(a.Stdout, "%d changes give this project more power:\n", len(m))
	}
	for _, g := range m[:min(len(m), maxSummary)] {
		place := a.Shown(g.Path)
		if g.Line > 0 && !g.Removed {
			place = fmt.Sprintf("%s:%d", place, g.Line)
		}
		fmt.Fprintf(a.Stdout, "! %s  %s\n", render.Plain(place), render.Plain(g.Text))
	}
	if n := len(m) - maxSummary; n > 0 {
		fmt.Fprintf(a.Stdout, "! and %d more, which are marked below\n", n)
	}
}

// showText prints a text, or how it differs from the text trusted before.
func (a *app) showText(name, was, is string, known bool, m marks) {
	whole := func() string {
		var b strings.Builder
		n := 0
		for line := range strings.Lines(strings.TrimRight(render.Plain(is), "\n")) {
			n++
			b.WriteString(m.gutter(n, false) + line)
		}
		return b.String()
	}
	switch {
	case !known:
		fmt.Fprintf(a.Stdout, "--- %s\n%s\n", name, whole())
	case was == is:
		fmt.Fprintf(a.Stdout, "--- %s: unchanged\n", name)
	case render.Plain(was) == render.Plain(is):
		fmt.Fprintf(a.Stdout, "--- %s: changed in invisible characters\n%s\n", name, whole())
	default:
		version := func(s string) diff.Version { return diff.Version{Mode: diff.Regular, Data: render.Plain(s)} }
		text := diff.Of(diff.File{Name: "x", Before: version(was), After: version(is)}).Diff
		if i := strings.Index(text, "\n@@"); i >= 0 {
			text = text[i+1:]
		}
		fmt.Fprintf(a.Stdout, "--- %s: changed since you trusted it\n%s\n", name, m.diff(strings.TrimRight(text, "\n")))
	}
}

// diff marks the lines of a diff.
func (m marks) diff(text string) string {
	if len(m) == 0 {
		return text
	}
	var b strings.Builder
	var before, after int
	for line := range strings.Lines(text) {
		gutter := "  "
		switch line[0] {
		case '@':
			if _, err := fmt.Sscanf(line, "@@ -%d", &before); err == nil {
				_, rest, _ := strings.Cut(line, "+")
				_, _ = fmt.Sscanf(rest, "%d", &after)
			}
		case '-':
			gutter = m.gutter(before, true)
			before++
		case '+':
			gutter = m.gutter(after, false)
			after++
		case ' ':
			gutter = m.gutter(after, false)
			before, after = before+1, after+1
		}
		b.WriteString(gutter + line)
	}
	return b.String()
}
