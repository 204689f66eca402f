package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/model"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/spf13/cobra"
)

func (a *app) modelsCommand() *cobra.Command {
	var asJSON, refresh bool
	var from string
	cmd := &cobra.Command{
		Use: "models [PROVIDER...]", Short: "List the models of the configured providers",
		Long: "models starts the providers and queries them. No key is needed, unless a service requires one to list its models. USED AS\n" +
			"lists the model blocks that refer to a row; the default model has a star. CONTEXT is the size of the context window; if\n" +
			"it doesn't come from the catalogue, its source is given: the provider's block (config), the service, or a guess\n" +
			"(assumed). The catalogue is built in; --refresh fetches the published one, which is used from then on. Exit status 1: a\n" +
			"provider could not be queried.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			if refresh || from != "" {
				if err := a.refreshModels(ctx, args, from); err != nil {
					return err
				}
			}
			return a.models(ctx, args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&refresh, "refresh", false, "fetch the published model catalogue first")
	cmd.Flags().StringVar(&from, "refresh-from", "", "fetch the catalogue from `URL` first, for example from a mirror")
	return cmd
}

// refreshModels lets providers fetch their published list of models. A provider without such a command is an error only if it was
// named. The flags --refresh and --refresh-from are the user's consent to the side effects.
func (a *app) refreshModels(ctx context.Context, names []string, from string) (err error) {
	_, providers, h, err := a.providersHost(ctx, names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	input, err := json.Marshal(map[string]string{"url": from})
	if err != nil {
		return err
	}
	failed := false
	for _, b := range providers {
		out, err := h.Plugins().Command(ctx, b.Label, pluginset.CommandRun{Name: "refresh", Input: input, Confirmed: true})
		var said struct{ Message string }
		switch {
		case errors.Is(err, pluginset.ErrNoCommand) && len(names) == 0:
		case err != nil:
			a.ShowProblem(err)
			failed = true
		case json.Unmarshal(out, &said) == nil && said.Message != "":
			fmt.Fprintf(a.Stderr, "%s: %s\n", b.Label, render.OneLine(said.Message, 200))
		}
	}
	if failed {
		return console.ErrShown
	}
	return nil
}

// offer is the list of models of a provider.
type offer struct {
	Provider string         `json:"provider"`
	Models   []llm.ModelRow `json:"models"`
	Error    string         `json:"error,omitempty"`
	err      error
	lacks    []event.Notice // what its block lacks
}

func (a *app) models(ctx context.Context, names []string, asJSON bool) (err error) {
	cfg, providers, h, err := a.providersHost(ctx, names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	offers := askProviders(ctx, h, providers)
	if asJSON {
		err = a.PrintJSON(offers)
	} else {
		err = a.showModels(cfg, offers)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(offers, func(o offer) bool { return o.err != nil }) {
		return console.ErrShown
	}
	return nil
}

// providersHost opens a host with only the named providers, or all of them. Other plugins are not needed, and a broken one must
// not cause a failure.
func (a *app) providersHost(ctx context.Context, names []string) (*config.Config, []*config.PluginBlock, *host.Host, error) {
	home, err := a.Home()
	if err != nil {
		return nil, nil, nil, err
	}
	cfg, err := a.LoadConfig(ctx, home, a.Dir)
	if err != nil {
		return nil, nil, nil, err
	}
	providers, err := chosenProviders(cfg, names)
	if err != nil {
		return nil, nil, nil, err
	}
	only := *cfg
	only.Providers, only.Plugins = providers, nil
	h, err := a.HostOf(ctx, home, &only, console.HostOptions{Dir: a.Dir, Ephemeral: true, Keyless: true})
	return cfg, providers, h, err
}

func chosenProviders(cfg *config.Config, names []string) ([]*config.PluginBlock, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(cfg.Providers), func(b *config.PluginBlock) bool { return !b.Enabled }), nil
	}
	var out []*config.PluginBlock
	for _, n := range names {
		b, ok := cfg.Provider(n)
		if !ok {
			return nil, diag.Failure{Diagnostics: diag.Diagnostics{console.UnknownProvider(cfg, n)}}
		}
		if !b.Enabled {
			return nil, hint.With(fmt.Errorf("%s: provider %q is disabled", b.Where(), n), "set enabled = true in its block")
		}
		out = append(out, b)
	}
	return out, nil
}

func askProviders(ctx context.Context, h *host.Host, providers []*config.PluginBlock) []offer {
	offers := make([]offer, len(providers))
	var asked sync.WaitGroup
	for i, b := range providers {
		asked.Go(func() {
			o := offer{Provider: b.Label, Models: []llm.ModelRow{}}
			rows, err := model.New(h.Plugins().Slot(b.Label), "").Rows(ctx)
			if err != nil {
				o.err, o.Error = err, err.Error()
			} else {
				o.Models = append(o.Models, rows...)
			}
			o.lacks = h.Plugins().MissingSettings(b.Label)
			offers[i] = o
		})
	}
	asked.Wait()
	return offers
}

func (a *app) showModels(cfg *config.Config, offers []offer) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tMODEL\tUSED AS\tCONTEXT\tOUTPUT\tINPUT\tREASONING\t$/M IN\t$/M OUT")
	for _, o := range offers {
		for _, r := range o.Models {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Provider, render.OneLine(r.ID, 60), usedAs(cfg, o.Provider, r.ID), window(r),
				count(r.MaxOutputTokens), render.OneLine(render.Listed(r.InputModalities, "-"), 40), render.OneLine(render.Listed(r.ReasoningEfforts, "-"), 40), price(r.Prices.Input), price(r.Prices.Output))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range offers {
		for _, n := range o.lacks {
			n.Text = fmt.Sprintf("provider %q: %s", o.Provider, n.Text)
			a.ShowNotice(n)
		}
		for _, r := range o.Models {
			for _, note := range r.Notes {
				a.ShowNotice(event.Notice{Text: note})
			}
		}
		if o.err != nil {
			a.ShowProblem(o.err)
		}
	}
	for _, m := range cfg.Models {
		if i := slices.IndexFunc(offers, func(o offer) bool { return o.Provider == m.Provider && o.err == nil }); i >= 0 &&
			!slices.ContainsFunc(offers[i].Models, func(r llm.ModelRow) bool { return r.ID == m.Name }) {
			fmt.Fprintf(a.Stderr, "Note: %s: provider %q does not list %q; it is used anyway, with assumed limits\n", m.Range, m.Provider, m.Name)
		}
	}
	return nil
}

// usedAs names the model blocks that use a model.
func usedAs(cfg *config.Config, provider, id string) string {
	var out []string
	for _, m := range cfg.Models {
		if m.Provider == provider && m.Name == id {
			label := m.Label
			if label == cfg.DefaultModel {
				label += "*"
			}
			out = append(out, label)
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}

// window formats a context window, and where it is known from unless that is the catalog.
func window(r llm.ModelRow) string {
	switch s := count(r.ContextWindow); r.ContextWindowSource {
	case llm.WindowConfig, llm.WindowService, llm.WindowAssumed:
		return fmt.Sprintf("%s (%s)", s, r.ContextWindowSource)
	default:
		return s
	}
}

// count formats a number of tokens; 0 means unknown.
func count(n int64) string {
	switch {
	case n == 0:
		return "-"
	case n >= 1_000_000 && n%100_000 == 0:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + "M"
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

func price(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%g", *p)
}
