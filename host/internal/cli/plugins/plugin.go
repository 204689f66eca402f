package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
)

func (a *app) pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plugin", Short: "List, inspect, lock, add, remove, reload, run and create plugins",
		Long: "Tools and model providers are separate programs, configured by the `plugin` and `provider` blocks of gantry.hcl. Built-in\n" +
			"programs are pinned by gantry's build. gantry.lock.hcl pins the content of all other programs: a program that is not\n" +
			"locked, or that differs from its lock, is not started.",
	}
	cmd.AddCommand(
		a.pluginList(), a.pluginInspect(), a.pluginLock(), a.pluginVerify(), a.pluginAdd(), a.pluginRemove(), a.pluginReload(),
		a.pluginRun(), a.pluginNew(),
	)
	return cmd
}

// withPrograms calls f with the programs of the configured blocks.
func (a *app) withPrograms(cmd *cobra.Command, f func(ctx context.Context, p *install.Programs) error) (err error) {
	ctx, stop := console.Interruptible(cmd)
	defer stop()
	home, err := a.Home()
	if err != nil {
		return err
	}
	p, err := a.OpenPrograms(ctx, home, a.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	return f(ctx, p)
}

// pluginRow is a block in the output of `plugin list --json` and `plugin inspect --json`.
type pluginRow struct {
	Label    string            `json:"label"`
	Kind     string            `json:"kind"`
	Source   string            `json:"source"`
	Where    string            `json:"where"`
	Enabled  bool              `json:"enabled"`
	Path     string            `json:"path,omitempty"`
	SHA256   string            `json:"sha256,omitempty"`
	Lock     install.LockState `json:"lock"`
	LockFile string            `json:"lockFile,omitempty"`
	Name     string            `json:"name,omitempty"`
	Version  string            `json:"version,omitempty"`
	Problem  string            `json:"problem,omitempty"`
}

// rowOf returns the row of a program.
func rowOf(pr *install.Program) pluginRow {
	b := pr.Block
	r := pluginRow{
		Label: b.Label, Kind: b.Kind.String(), Source: b.Source, Where: b.Where(), Enabled: b.Enabled, Path: pr.Path, SHA256: pr.SHA256,
		Lock: pr.State,
	}
	if pr.State != install.LockBuiltin {
		r.LockFile = b.LockFile
	}
	if m := pr.Manifest; m != nil {
		r.Name, r.Version = m.Name, m.Version
	}
	if pr.Problem != nil {
		r.Problem = pr.Problem.Error()
	}
	return r
}

func (a *app) pluginList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the configured plugins and providers", Args: console.Takes(0, 0),
		Long: "list shows each block with its program and the state of its lock. A program is started only if its manifest is not cached,\n" +
			"and only if its content matches the lock.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error {
				all := p.LookAll(ctx)
				if asJSON {
					rows := make([]pluginRow, 0, len(all))
					for i := range all {
						rows = append(rows, rowOf(&all[i]))
					}
					return a.PrintJSON(rows)
				}
				return a.showList(all)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showList(all []install.Program) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tVERSION\tLOCK\tSOURCE\tWHERE")
	for i := range all {
		r := rowOf(&all[i])
		state := string(r.Lock)
		if !r.Enabled {
			state += ", off"
		}
		version := r.Version
		if version == "" {
			version = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Label, r.Kind, render.Clean(version), state, render.Clean(r.Source), r.Where)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range all {
		if err := all[i].Problem; err != nil && all[i].Block.Enabled {
			a.ShowProblem(err)
		}
	}
	return nil
}

func (a *app) pluginInspect() *cobra.Command {
	var asJSON, yes bool
	cmd := &cobra.Command{
		Use: "inspect NAME", Short: "Show a plugin's manifest: its tools or models, settings and permissions", Args: console.Takes(1, 1, "NAME"),
		Long: "inspect starts the plugin without configuring it, reads its manifest, and stops it. If the plugin doesn't start, everything\n" +
			"that it printed is shown. A program that is not locked is started only after confirmation, or with --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error {
				b, err := p.Block(args[0])
				if err != nil {
					return err
				}
				return a.inspect(ctx, p, b, asJSON, yes)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&yes, "yes", false, "start the program even if it is not locked")
	return cmd
}

// inspection is the output of `plugin inspect --json`.
type inspection struct {
	pluginRow
	ManifestDigest string             `json:"manifestDigest,omitempty"`
	Permissions    []string           `json:"permissions,omitempty"`
	Manifest       *contract.Manifest `json:"manifest,omitempty"`
	Start          *startProblem      `json:"start,omitempty"`
}

// startProblem describes a failed start.
type startProblem struct {
	Phase      string   `json:"phase"`
	Error      string   `json:"error"`
	Exit       string   `json:"exit,omitempty"`
	Printed    []string `json:"printed,omitempty"`
	StderrTail []string `json:"stderr,omitempty"`
	Report     []string `json:"report,omitempty"`
	Next       string   `json:"next,omitempty"`
}

func (a *app) inspect(ctx context.Context, p *install.Programs, b *config.PluginBlock, asJSON, yes bool) error {
	pr := p.Look(b)
	if pr.SHA256 == "" {
		return pr.Problem
	}
	if !pr.Trusted() && !yes && !a.Confirm(ctx, fmt.Sprintf("%s: %s is %s. Start it to read its manifest?", b.Where(), pr.Path, unpinned(pr.State))) {
		a.ShowProblem(pr.Problem)
		return hint.With(fmt.Errorf("plugin %q was not started", b.Label), "lock it, or start it anyway with --yes")
	}
	pr.Manifest = nil // use the current manifest, not a cached one
	slot, err := p.Describe(ctx, &pr, b.Kind)
	out := inspection{Permissions: install.Permissions(b.Permissions), Manifest: pr.Manifest}
	if pr.Manifest != nil {
		out.ManifestDigest = pr.Manifest.Digest()
		if pr.State != install.LockBuiltin {
			p.Compare(&pr)
		}
	}
	out.pluginRow = rowOf(&pr)
	if e, ok := errors.AsType[*plugin.Error](err); ok {
		out.Start = &startProblem{
			Phase: string(e.Phase), Error: err.Error(), Printed: e.Printed, StderrTail: slot.Stderr(install.MaxInspectLines), Report: e.Report, Next: e.Next,
		}
		if len(out.Start.StderrTail) == 0 {
			out.Start.StderrTail = e.StderrTail
		}
		if e.Exit != nil {
			out.Start.Exit = e.Exit.String()
		}
	}
	if asJSON {
		if printed := a.PrintJSON(out); printed != nil || err == nil {
			return printed
		}
		return console.ErrShown
	}
	if err != nil {
		a.showStart(err, out.Start)
		return console.ErrShown
	}
	return a.showInspection(out)
}

func unpinned(s install.LockState) string {
	if s == install.LockDiffers {
		return "not the locked program"
	}
	return "not locked"
}

// showStart prints why a plugin did not start, with its complete output.
func (a *app) showStart(err error, s *startProblem) {
	e, ok := errors.AsType[*plugin.Error](err)
	if !ok || s == nil {
		a.ShowError(err)
		return
	}
	full := *e
	full.StderrTail = s.StderrTail
	a.ShowError(&full)
	if len(s.Report) > 0 {
		fmt.Fprintf(a.Stderr, "\nOutput when it crashed:\n%s\n", render.Clean(strings.Join(s.Report, "\n")))
	}
}

func (a *app) showInspection(in inspection) error {
	m, w := in.Manifest, a.Stdout
	fmt.Fprintf(w, "%s %s, a %s plugin\n", m.Name, m.Version, m.Kind)
	if m.Description != "" {
		fmt.Fprintf(w, "%s\n", render.Clean(m.Description))
	}
	fmt.Fprintln(w)
	facts := [][2]string{
		{"block", fmt.Sprintf("%s %q at %s", install.BlockType(m.Kind), in.Label, in.Where)}, {"source", in.Source}, {"program", in.Path},
		{"sha256", in.SHA256}, {"lock", string(in.Lock)}, {"manifest", in.ManifestDigest},
		{"capabilities", render.Listed(m.Capabilities, "none")}, {"host services", render.Listed(m.HostServices, "none")},
		{"permissions", render.Listed(in.Permissions, "none except its capabilities")}, {"limits", limitsText(m.Limits)},
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, f := range facts {
		fmt.Fprintf(t, "  %s\t%s\n", f[0], render.Clean(f[1]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := showSettings(w, m); err != nil {
		return err
	}
	for _, tool := range m.Tools {
		showTool(w, tool)
	}
	for _, c := range m.Commands {
		effects := ""
		if c.SideEffects {
			effects = " (has side effects)"
		}
		fmt.Fprintf(w, "\nCommand %s%s\n  %s\n", c.Name, effects, render.Clean(c.Description))
	}
	if m.Instructions != "" {
		fmt.Fprintf(w, "\nInstructions for the model\n%s\n", indented(render.Clean(m.Instructions), "  "))
	}
	if in.Problem != "" {
		fmt.Fprintf(a.Stderr, "\nWarning: %s\n", render.Clean(in.Problem))
	}
	return nil
}

func limitsText(l contract.Limits) string {
	var out []string
	for _, f := range []struct {
		name string
		n    int64
		unit string
	}{
		{"messages", l.MaxMessageBytes, "bytes"}, {"inline results", l.MaxInlineBytes, "bytes"}, {"output", l.MaxOutputBytes, "bytes"},
		{"parallel calls", int64(l.MaxParallelCalls), ""},
	} {
		if f.n > 0 {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %d %s", f.name, f.n, f.unit)))
		}
	}
	for _, f := range []struct {
		name string
		ms   int64
	}{{"start", l.StartMS}, {"stop", l.StopMS}, {"a call", l.CallMS}} {
		if f.ms > 0 {
			out = append(out, fmt.Sprintf("%s %v", f.name, time.Duration(f.ms)*time.Millisecond))
		}
	}
	return render.Listed(out, "the defaults")
}

// showSettings prints the settings of the block.
func showSettings(w io.Writer, m *contract.Manifest) error {
	place := "the block itself"
	if m.Kind == contract.KindTool {
		place = "its config block"
	}
	if m.Config.IsZero() {
		_, err := fmt.Fprintf(w, "\nIt has no settings.\n")
		return err
	}
	fmt.Fprintf(w, "\nSettings, in %s\n", place)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "  NAME\tTYPE\tDEFAULT\tMEANING")
	settingRows(t, m.Config, "")
	return t.Flush()
}

func settingRows(w io.Writer, b contract.ConfigBlock, prefix string) {
	for _, at := range b.Attributes {
		def := string(at.Default)
		switch {
		case at.Required:
			def = "required"
		case at.Sensitive && def != "":
			def = "(hidden)"
		case def == "":
			def = "-"
		}
		meaning := at.Description
		if len(at.Allowed) > 0 {
			meaning = strings.TrimSpace(meaning + " One of " + strings.Join(at.Allowed, ", ") + ".")
		}
		if at.Sensitive {
			meaning = strings.TrimSpace(meaning + " Secret.")
		}
		if at.Deprecated != "" {
			meaning = strings.TrimSpace(meaning + " Deprecated: " + at.Deprecated)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", prefix+at.Name, typeText(at.Type), render.OneLine(def, 40), render.OneLine(meaning, 200))
	}
	for _, n := range b.Blocks {
		header := n.Name
		for _, l := range n.Labels {
			header += " <" + l + ">"
		}
		count := "any number"
		switch {
		case n.MinItems > 0 && n.MinItems == n.MaxItems:
			count = fmt.Sprint(n.MinItems)
		case n.MaxItems > 0:
			count = fmt.Sprintf("%d to %d", n.MinItems, n.MaxItems)
		case n.MinItems > 0:
			count = fmt.Sprintf("%d or more", n.MinItems)
		}
		fmt.Fprintf(w, "  %s\tblock\t%s\t%s\n", prefix+header, count, render.OneLine(n.Block.Description, 200))
		if n.Process {
			n.Block = config.ProcessSettings(n)
		}
		settingRows(w, n.Block, prefix+n.Name+".")
	}
}

// typeText describes a type: ["list","string"] is "list of string".
func typeText(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		if name == "dynamic" {
			return "any"
		}
		return name
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &name) != nil {
		return string(raw)
	}
	switch name {
	case "list", "set", "map":
		return name + " of " + typeText(parts[1])
	}
	return name
}

func showTool(w io.Writer, d contract.Descriptor) {
	name := d.Name
	if d.Namespace != "" {
		name = d.Namespace + "." + name
	}
	fmt.Fprintf(w, "\nTool %s\n", name)
	if d.Description != "" {
		fmt.Fprintln(w, indented(render.Clean(d.Description), "  "))
	}
	var traits []string
	for _, t := range []struct {
		on   bool
		text string
	}{
		{d.ReadOnly, "only reads"}, {d.ParallelSafe, "runs concurrently"}, {d.Assess, "assesses each call before it runs"},
		{d.EffectsByHost, "acts only through the host"},
		{d.Exposure == contract.ExposureDeferred, "found by search"}, {d.Exposure == contract.ExposureHidden, "hidden from the model"},
		{d.Nesting == contract.NestingNever, "only for the model"}, {d.Nesting == contract.NestingOnly, "only for code and other tools"},
		{d.SerialGroup != "", "one at a time with " + d.SerialGroup}, {len(d.ModelTraits) > 0, "for models with " + strings.Join(d.ModelTraits, ", ")},
	} {
		if t.on {
			traits = append(traits, t.text)
		}
	}
	if len(traits) > 0 {
		fmt.Fprintf(w, "  (%s)\n", render.Clean(strings.Join(traits, "; ")))
	}
	showSchema(w, "arguments", d.InputSchema)
	showSchema(w, "result", d.OutputSchema)
	if f := d.Freeform; f != nil {
		fmt.Fprintf(w, "  takes text in %s\n", render.Clean(render.Listed([]string{f.Syntax}, "")))
		if f.Definition != "" {
			fmt.Fprintln(w, indented(render.Clean(f.Definition), "    "))
		}
	}
}

func showSchema(w io.Writer, what string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return // the schemas of an accepted manifest are valid
	}
	pretty, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return
	}
	fmt.Fprintf(w, "  %s: %s\n", what, render.Clean(string(pretty)))
}

// indented adds a prefix to each line.
func indented(s, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+prefix)
}
