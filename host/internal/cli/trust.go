package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/spf13/cobra"
)

func (a *app) trustCommand() *cobra.Command {
	var revoke, list, yes, asJSON bool
	cmd := &cobra.Command{
		Use: "trust [flags] [DIR]", Short: "Let a project's configuration count", Args: takes(0, 1, "DIR"),
		Long: "A project's .gantry/gantry.hcl can start programs and change what they may do, so it is left out until you have\n" +
			"agreed to it. trust shows the configuration and lock file of the project that DIR (default: this folder) belongs to,\n" +
			"asks, and remembers the answer for exactly that content.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			home, err := a.home()
			if err != nil {
				return err
			}
			if list {
				if len(args) > 0 {
					return usage("--list takes no DIR; next: leave one of them out")
				}
				return a.listTrusted(home, asJSON)
			}
			dir, err := a.workDir(append(args, "")[0])
			if revoke && err != nil && len(args) > 0 {
				dir, err = filepath.Abs(args[0]) // the folder may be gone
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
	fs.BoolVar(&revoke, "revoke", false, "take the answer back")
	fs.BoolVar(&list, "list", false, "list the projects that are trusted")
	fs.BoolVarP(&yes, "yes", "y", false, "agree without being asked")
	fs.BoolVar(&asJSON, "json", false, "with --list: print JSON")
	exclusive(cmd, "revoke", "list", "yes")
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
		return a.printJSON(projects)
	}
	if len(projects) == 0 {
		fmt.Fprintln(a.stderr, "no project is trusted")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PROJECT\tSINCE\tNOW")
	for _, t := range projects {
		fmt.Fprintf(w, "%s\t%s\t%s\n", clean(t.Dir), t.At.Local().Format(time.DateTime), standing(t, home))
	}
	return w.Flush()
}

// standing says whether an answer still holds.
func standing(t trust.Project, home string) string {
	p, err := config.FindProject(t.Dir, home)
	switch {
	case err != nil:
		return "can't be read"
	case p == nil || p.Dir != t.Dir:
		return "has no configuration any more"
	case p.Digest != t.Digest:
		return "changed since: not trusted"
	}
	return "unchanged"
}

func (a *app) revoke(ctx context.Context, home, dir string) error {
	if p, err := config.FindProject(dir, home); err == nil && p != nil {
		dir = p.Dir
	}
	removed, err := trust.Open(home).Remove(ctx, dir)
	if err != nil {
		return err
	}
	if !removed {
		return fmt.Errorf("%s is not trusted; next: see `gantry trust --list`", dir)
	}
	fmt.Fprintln(a.stdout, "no longer trusted:", dir)
	return nil
}

func (a *app) trust(ctx context.Context, home, dir string, yes bool) error {
	p, err := config.FindProject(dir, home)
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("neither %s nor a folder above it has a .gantry/gantry.hcl or .gantry/rules; next: `gantry init --project` writes one", dir)
	}
	store := trust.Open(home)
	if _, err := store.List(); err != nil {
		return err
	}
	if store.Trusted(p.Dir, p.Digest) {
		fmt.Fprintln(a.stdout, "trusted already:", p.Dir)
		return nil
	}
	if err := a.showProject(p); err != nil {
		return err
	}
	if !yes && !a.confirm(ctx, fmt.Sprintf("Let this configuration count in %s?", p.Dir)) {
		if !a.terminal() {
			return fmt.Errorf("%s was not trusted: there is no terminal to ask on; next: run it with --yes once you have looked at it", p.Dir)
		}
		return fmt.Errorf("%s was not trusted", p.Dir)
	}
	if err := store.Add(ctx, p.Dir, p.Digest); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, "trusted:", p.Dir)
	return nil
}

// showProject prints what would be trusted. What is shown is what the answer is bound to, whatever the files say by then.
func (a *app) showProject(p *config.Project) error {
	content := map[string][]byte{}
	for _, path := range append(p.Files, filepath.Join(p.Dir, ".gantry", lock.FileName)) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && filepath.Base(path) == lock.FileName {
			continue
		}
		if err != nil {
			return err
		}
		content[filepath.Base(path)] = text
		fmt.Fprintf(a.stdout, "--- %s\n%s\n", a.shown(path), strings.TrimRight(plain(string(text)), "\n"))
	}
	for _, r := range p.Rules {
		content["rules/"+filepath.Base(r.Path)] = []byte(r.Text)
		fmt.Fprintf(a.stdout, "--- %s\n%s\n", a.shown(r.Path), strings.TrimRight(plain(r.Text), "\n"))
	}
	if trust.Digest(content) != p.Digest {
		return errors.New("the configuration was changed while it was shown; next: run the command again")
	}
	return nil
}

// plain shows also what a terminal would not: marks that change the direction of text can hide what a line says.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, clean(s))
}
