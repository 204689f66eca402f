package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/cli/codex"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// codexFlags are flags of codex's exec that gantry does not need under these names. They exist for scripts and SDKs written for
// codex. They are omitted from the help and described in docs/guides/exec.md.
type codexFlags struct {
	source   string   // the source that a new thread is recorded with
	enable   []string // features
	disable  []string
	fullAuto bool
	trust    bool
	ignored  struct{ git, strict, rules bool } // gantry needs no repository, is always strict, and always applies rules
	settings codex.Overrides
}

func (f *codexFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.source, "thread-source", "", "record `SOURCE` as the origin of the thread")
	fs.StringArrayVar(&f.enable, "enable", nil, "same as -c features.`NAME`=true")
	fs.StringArrayVar(&f.disable, "disable", nil, "same as -c features.`NAME`=false")
	fs.BoolVar(&f.fullAuto, "full-auto", false, "same as --sandbox workspace-write -c approval.policy=never")
	fs.BoolVar(&f.trust, "trust", false, "run gantry trust --yes first")
	fs.BoolVar(&f.ignored.git, "skip-git-repo-check", false, "no effect: no repository is needed")
	fs.BoolVar(&f.ignored.strict, "strict-config", false, "no effect: unknown settings are errors")
	fs.BoolVar(&f.ignored.rules, "ignore-rules", false, "no effect: rules always apply")
	for _, name := range []string{
		"thread-source", "enable", "disable", "full-auto", "trust", "skip-git-repo-check", "strict-config",
		"ignore-rules",
	} {
		fs.Lookup(name).Hidden = true
	}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(otherNames[name], name))
	})
}

// otherNames are aliases of flags.
var otherNames = map[string]string{"experimental-json": "json", "yolo": "dangerously-bypass-approvals-and-sandbox"}

// images splits an argument that lists several images, as codex's exec accepts.
func (a *app) images(given []string) (out []string) {
	for _, path := range given {
		if !strings.Contains(path, ",") || a.IsFile(path) {
			out = append(out, path)
			continue
		}
		out = append(out, strings.Split(path, ",")...)
	}
	return out
}

// understand translates codex's settings and flags to gantry's. It prints a note for those without an equivalent.
func (a *app) understand(f *execFlags) error {
	a.Homeless = f.ephemeral
	f.images = a.images(f.images)
	given := a.Flags.Sets
	for _, name := range f.codex.enable {
		given = append(given, "features."+name+"=true")
	}
	for _, name := range f.codex.disable {
		given = append(given, "features."+name+"=false")
	}
	if f.codex.fullAuto {
		given = append(given, "sandbox.mode=workspace-write", "approval.policy=never")
	}
	o, err := codex.Translate(given)
	if err != nil {
		return console.Usage("%w", err)
	}
	access, err := f.access.sets()
	if err != nil {
		return err
	}
	if f.access.folders, err = a.roots(f.access.folders); err != nil {
		return err
	}
	a.Flags.Sets = append(o.Sets, access...)
	a.Flags.Profile = cmp.Or(a.Flags.Profile, o.Profile)
	f.model, f.codex.settings = cmp.Or(f.model, o.Model), o
	slices.Sort(o.Left)
	for _, name := range slices.Compact(o.Left) {
		fmt.Fprintf(a.Stderr, "Warning: gantry has no equivalent of codex's %s; it is ignored\n", render.Clean(name))
	}
	return nil
}

// override returns a function that changes the model according to the settings, or nil.
func (f *codexFlags) override() func(*config.Model) {
	o := f.settings
	if o.Window == 0 && o.Search == nil {
		return nil
	}
	return func(m *config.Model) {
		m.ContextWindow = cmp.Or(o.Window, m.ContextWindow)
		if o.Search == nil {
			return
		}
		search := func(t config.HostedTool) bool { return t.Kind == webSearch }
		switch has := slices.ContainsFunc(m.HostedTools, search); {
		case *o.Search && !has:
			m.HostedTools = append(slices.Clone(m.HostedTools), config.HostedTool{Kind: webSearch})
		case !*o.Search:
			m.HostedTools = slices.DeleteFunc(slices.Clone(m.HostedTools), search)
		}
	}
}

// webSearch is the kind of hosted tool with which providers search the web.
const webSearch = "web_search"

// trustProject does what `gantry trust --yes` does, without output.
func (a *app) trustProject(ctx context.Context, dir string) error {
	home, err := a.Home()
	if err != nil {
		return err
	}
	p, err := config.FindProject(dir, home)
	if err != nil || p == nil {
		return err
	}
	return trust.Open(home).Add(ctx, p.Dir, p.Digest)
}
