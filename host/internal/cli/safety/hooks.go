package safety

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/reach"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hookconfig"
	"github.com/spf13/cobra"
)

func (a *app) hooksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hooks", Short: "List hooks and consent to them",
		Long: "Hooks are your own programs that observe events of a thread and can block them. They run outside the sandbox, so a hook\n" +
			"runs only after you have consented to it: to when it runs, its command, and the content of the scripts that it names. If\n" +
			"any of these change, it is disabled until you consent again. Hooks in /etc/gantry need no consent.",
	}
	cmd.AddCommand(a.hooksListCommand(), a.hooksTrustCommand())
	return cmd
}

// foundHook describes a hook as it is now.
type foundHook struct {
	Key     string   `json:"key"`
	Event   string   `json:"event"`
	Matcher string   `json:"matcher,omitempty"`
	Type    string   `json:"type"` // "command", "prompt" or "agent"
	Command string   `json:"command,omitempty"`
	Prompt  string   `json:"prompt,omitempty"`
	Model   string   `json:"model,omitempty"`
	Source  string   `json:"source,omitempty"`
	Scope   string   `json:"scope"`
	Status  string   `json:"status"`
	Digest  string   `json:"digest,omitempty"`
	Scripts []string `json:"scripts,omitempty"`
	Folders []string `json:"folders,omitempty"` // completely covered by its digest
	Problem string   `json:"problem,omitempty"`

	definition hook.Definition
	reach      reach.Set
}

// does describes what the hook runs.
func (f foundHook) does() string {
	if f.Prompt == "" {
		return f.Command
	}
	of := f.Type
	if f.Model != "" {
		of += " for " + f.Model
	}
	return of + ": " + f.Prompt
}

// findHooks reads the hooks of threads in a folder.
func (a *app) findHooks(ctx context.Context, dir string) (home string, found []foundHook, problems []hook.Problem, err error) {
	if home, err = a.Home(); err != nil {
		return "", nil, nil, err
	}
	if dir, err = a.WorkDir(dir); err != nil {
		return "", nil, nil, err
	}
	cfg, err := a.LoadConfig(ctx, home, dir)
	if err != nil {
		return "", nil, nil, err
	}
	agreed, err := hookconfig.Agreed(home)
	if err != nil {
		return "", nil, nil, err
	}
	ds, problems := hookconfig.Load(cfg)
	for _, d := range ds {
		f := foundHook{
			Key: d.Key, Event: string(d.Event), Matcher: d.Matcher, Type: d.Kind(), Command: d.Command, Prompt: d.Prompt, Model: d.Model, Source: d.Source, Scope: d.Scope.String(),
			Status: d.Trust(agreed, dir, a.Environ).String(), definition: d,
		}
		if f.Digest, f.reach, err = d.Digest(dir, a.Environ); err != nil {
			f.Problem = err.Error()
		}
		f.Scripts, f.Folders = f.reach.Paths(), f.reach.Folders
		found = append(found, f)
	}
	return home, found, problems, nil
}

func (a *app) hooksListCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the hooks of threads in this folder, and which of them are enabled", Args: console.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			_, found, problems, err := a.findHooks(ctx, dir)
			if err != nil {
				return err
			}
			a.tellProblems(problems)
			if asJSON {
				return a.PrintJSON(append([]foundHook{}, found...))
			}
			if len(found) == 0 {
				fmt.Fprintln(a.Stderr, "no hooks")
				return nil
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "STATUS\tEVENT\tMATCHER\tCOMMAND\tHOOK")
			for _, f := range found {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Status, f.Event, render.Plain(f.Matcher), inOneLine(render.Plain(f.does())), render.Plain(f.Key))
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVarP(&dir, "cd", "C", "", "for threads in `DIR`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func inOneLine(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	if rest != "" {
		line += " …"
	}
	return line
}

func (a *app) tellProblems(problems []hook.Problem) {
	for _, p := range problems {
		if !p.Foreign {
			fmt.Fprintln(a.Stderr, "left out:", render.Clean(p.Error()))
		}
	}
}

func (a *app) hooksTrustCommand() *cobra.Command {
	var dir string
	var yes, revoke bool
	cmd := &cobra.Command{
		Use: "trust [flags] [HOOK...]", Short: "Consent to hooks", Args: console.Takes(0, -1, "HOOK"),
		Long: "trust shows each hook that needs your consent, with the scripts that it runs, asks for confirmation, and stores the answer\n" +
			"for exactly this content. HOOK is a name from `gantry hooks list`; the default is all hooks.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			return a.trustHooks(ctx, dir, args, yes, revoke)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&dir, "cd", "C", "", "for threads in `DIR`")
	fs.BoolVarP(&yes, "yes", "y", false, "consent without confirmation")
	fs.BoolVar(&revoke, "revoke", false, "revoke consent")
	console.Exclusive(cmd, "revoke", "yes")
	return cmd
}

func (a *app) trustHooks(ctx context.Context, dir string, keys []string, yes, revoke bool) error {
	home, found, problems, err := a.findHooks(ctx, dir)
	if err != nil {
		return err
	}
	a.tellProblems(problems)
	for _, key := range keys {
		if !slices.ContainsFunc(found, func(f foundHook) bool { return f.Key == key }) && !revoke {
			return hint.With(fmt.Errorf("unknown hook %q", key), "see `gantry hooks list`")
		}
	}
	found = slices.DeleteFunc(found, func(f foundHook) bool { return len(keys) > 0 && !slices.Contains(keys, f.Key) })
	store := trust.OpenHooks(home)
	if revoke {
		for _, f := range found {
			keys = append(keys, f.Key)
		}
		n, err := store.Remove(ctx, keys...)
		if err == nil {
			fmt.Fprintf(a.Stdout, "no longer trusted: %s\n", render.Plural(n, "hook"))
		}
		return err
	}
	found = slices.DeleteFunc(found, func(f foundHook) bool {
		return f.Status == hook.TrustManaged.String() || f.Status == hook.Trusted.String()
	})
	if len(found) == 0 {
		fmt.Fprintln(a.Stdout, "all hooks have your consent")
		return nil
	}
	if dir, err = a.WorkDir(dir); err != nil {
		return err
	}
	agreed := map[string]string{}
	var refused []error
	for _, f := range found {
		err := a.showHook(f, dir)
		if gap, ok := errors.AsType[*hook.GapError](err); ok {
			refused = append(refused, gap)
			continue
		}
		if err != nil {
			return err
		}
		if !yes && !a.Confirm(ctx, "Allow this hook to run?") {
			if !a.Terminal() {
				return hint.New("no hook was trusted: no terminal to ask on", "review them, then run it with --yes")
			}
			continue
		}
		agreed[f.Key] = f.Digest
	}
	if err := store.Add(ctx, agreed); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "trusted: %s\n", render.Plural(len(agreed), "hook"))
	return errors.Join(refused...)
}

// showHook prints what would be trusted. Trust applies to exactly what is shown, even if the scripts change meanwhile.
func (a *app) showHook(f foundHook, dir string) error {
	fmt.Fprintf(a.Stdout, "--- %s\n%s, matcher %q, %s\n%s\n", render.Plain(f.Key), f.Event, render.Plain(f.Matcher), f.Status, strings.TrimRight(render.Plain(f.does()), "\n"))
	for _, g := range f.reach.Gaps {
		fmt.Fprintln(a.Stdout, "!", render.Plain(g.String()))
	}
	if f.Problem != "" {
		if len(f.reach.Gaps) > 0 {
			return &hook.GapError{Hook: f.Key, Gap: f.reach.Gaps[0]}
		}
		return errors.New(f.Problem)
	}
	for _, path := range f.Scripts {
		text, err := reach.Read(path, maxShown)
		if err != nil {
			return err
		}
		if slices.Contains(text, 0) {
			fmt.Fprintf(a.Stdout, "--- %s: a program, %d bytes\n", render.Plain(path), len(text))
			continue
		}
		fmt.Fprintf(a.Stdout, "--- %s\n%s\n", render.Plain(path), strings.TrimRight(render.Plain(string(text)), "\n"))
	}
	if f.definition.Files != nil {
		fmt.Fprintln(a.Stdout, "Its own list of files covers what gantry can't determine.")
	}
	for _, note := range f.reach.Notes {
		fmt.Fprintln(a.Stdout, "Covered completely:", render.Plain(note))
	}
	if held := f.reach.Held(); len(held) > 0 {
		fmt.Fprintln(a.Stdout, "Sandboxed commands won't be able to change:", render.Plain(strings.Join(a.allShown(held), ", ")))
	}
	if is, _, err := f.definition.Digest(dir, a.Environ); err != nil || is != f.Digest {
		return hint.New("a hook has changed while it was shown", "run the command again")
	}
	return nil
}

// maxShown limits how much of a file is shown.
const maxShown = 1 << 20

func (a *app) allShown(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = a.Shown(p)
	}
	return out
}
