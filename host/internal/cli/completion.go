package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
)

// completer returns candidates that begin with the typed word, each optionally followed by a tab and a description.
type completer func(ctx context.Context) []string

// complete registers completions for arguments and flags. It starts no plugins, and omits candidates that it cannot determine.
func (a *app) complete(root *cobra.Command) {
	first := func(f completer) cobra.CompletionFunc { return a.proposing(f, 1) }
	for path, f := range map[string]cobra.CompletionFunc{
		"resume": first(a.threadWords), "exec resume": first(a.threadWords), "compact": first(a.threadWords), "attach": first(a.threadWords),
		"fork": first(a.threadWords), "exec fork": first(a.threadWords), "threads turns": first(a.threadWords), "threads name": first(a.threadWords), "threads stop": first(a.threadWords), "threads fork": first(a.threadWords),
		"diff": first(a.threadWords), "undo": first(a.threadWords),
		"threads revert": first(a.threadWords), "threads rollback": first(a.threadWords), "threads archive": a.proposing(a.threadWords, 0),
		"threads unarchive": a.proposing(a.archivedWords, 0), "threads search": cobra.NoFileCompletions,
		"threads show": first(a.threadWords), "threads export": first(a.threadWords), "threads delete": a.proposing(a.threadWords, 0),
		"plugin inspect": first(a.pluginWords), "plugin remove": first(a.pluginWords), "plugin run": first(a.pluginWords), "plugin lock": a.proposing(a.pluginWords, 0),
		"plugin reload": a.proposing(a.pluginWords, 1, cobra.ShellCompDirectiveDefault), "models": a.proposing(a.providerWords, 0),
		"plugin new": cobra.NoFileCompletions, "trust": directories,
	} {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			panic("cli: there is no command " + path)
		}
		cmd.ValidArgsFunction = f
	}
	a.completeFlags(root)
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func (a *app) completeFlags(cmd *cobra.Command) {
	for name, f := range map[string]completer{
		"model": a.modelWords, "profile": a.profileWords, "log": levelWords, "color": fixedWords(console.ColorWords...),
		"sandbox": fixedWords("read-only", "workspace-write", "full-access"), "thread": a.threadWords,
	} {
		if fl := cmd.LocalFlags().Lookup(name); fl != nil {
			// The only possible errors, an unknown flag and a second registration, cannot occur.
			_ = cmd.RegisterFlagCompletionFunc(name, a.proposing(f, 0))
		}
	}
	for _, sub := range cmd.Commands() {
		a.completeFlags(sub)
	}
}

// proposing completes the first most arguments (0: all). For later ones it returns the directive behind.
func (a *app) proposing(f completer, most int, behind ...cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			if len(behind) > 0 {
				return nil, behind[0]
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, w := range f(cmd.Context()) {
			word, _, _ := strings.Cut(w, "\t")
			if strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
				out = append(out, w)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeBound limits how long the user waits after pressing the key.
const completeBound = time.Second

func (a *app) threadWords(ctx context.Context) []string { return a.wordsOfThreads(ctx, false) }

func (a *app) archivedWords(ctx context.Context) []string { return a.wordsOfThreads(ctx, true) }

func (a *app) wordsOfThreads(ctx context.Context, archived bool) []string {
	ctx, cancel := context.WithTimeout(ctx, completeBound)
	defer cancel()
	home, err := a.Home()
	if err != nil {
		return nil
	}
	cfg, _ := a.ReadConfig(ctx, home, a.Dir)
	if cfg == nil {
		return nil
	}
	where, err := a.Database(cfg)
	if err != nil || where.Driver == nil && !console.Exists(filepath.Join(home, "threads.db")) {
		return nil
	}
	s, err := store.Open(ctx, console.ConfigOf(home, where, hclog.NewNullLogger()))
	if err != nil {
		return nil
	}
	infos, err := s.Threads(ctx, store.Filter{Archived: archived, Limit: 50})
	if errors.Join(err, s.Close(ctx)) != nil {
		return nil
	}
	var out []string
	for _, t := range infos {
		out = append(out, string(t.ID)+"\t"+console.ThreadTitle(t))
	}
	return out
}

// words reads the configuration without printing warnings.
func (a *app) words(ctx context.Context, f func(*config.Config) []string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeBound)
	defer cancel()
	home, err := a.Home()
	if err != nil {
		return nil
	}
	cfg, _ := a.ReadConfig(ctx, home, a.Dir)
	if cfg == nil {
		return nil
	}
	return f(cfg)
}

func (a *app) pluginWords(ctx context.Context) []string {
	return a.words(ctx, func(c *config.Config) []string { return append(labels(c.Plugins), labels(c.Providers)...) })
}

func (a *app) providerWords(ctx context.Context) []string {
	return a.words(ctx, func(c *config.Config) []string { return labels(c.Providers) })
}

func (a *app) modelWords(ctx context.Context) []string {
	return a.words(ctx, func(c *config.Config) []string {
		var out []string
		for _, m := range c.Models {
			out = append(out, m.Label+"\t"+m.Provider+" "+render.OneLine(m.Name, 60))
		}
		return out
	})
}

func (a *app) profileWords(ctx context.Context) []string {
	// The profile that is being typed does not exist yet and must not make loading fail.
	a.Flags.Profile = ""
	return a.words(ctx, func(c *config.Config) []string { return c.Profiles })
}

func levelWords(context.Context) []string { return console.LogLevels() }

func fixedWords(words ...string) completer { return func(context.Context) []string { return words } }

func labels(blocks []*config.PluginBlock) []string {
	var out []string
	for _, b := range blocks {
		out = append(out, b.Label+"\t"+b.Source)
	}
	return out
}
