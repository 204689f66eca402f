package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/cli/run"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nextConfirm is the next step for a command that the user has not confirmed.
const nextConfirm = "confirm it on a terminal, or with --yes"

func (a *app) pluginRun() *cobra.Command {
	var yes, project bool
	var thread string
	cmd := &cobra.Command{
		Use: "run NAME COMMAND [INPUT]", Short: "Run a command that a plugin offers", Args: console.Takes(2, 3, "NAME", "COMMAND", "INPUT"),
		Long: "run starts the plugin, runs one of the commands that `gantry plugin inspect NAME` lists, and prints its output, JSON.\n" +
			"The process is a new one, which has no sessions of running threads. With --thread, it is the process of the plugin that\n" +
			"works for that thread.\n" +
			"INPUT is a JSON object; `gantry NAME COMMAND` is the same with flags for the input.\n" +
			"gantry asks before it runs a command with side effects. Without a terminal such a command is\n" +
			"refused, unless --yes is given.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			input := json.RawMessage("{}")
			if len(args) > 2 {
				input = json.RawMessage(args[2])
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(input, &object); err != nil || object == nil {
				return console.UsageError{Text: fmt.Sprintf("INPUT is not a JSON object: %q", render.OneLine(string(input), 80)), Next: `write it as in '{"name": "value"}'`}
			}
			r := pluginset.CommandRun{Name: args[1], Input: input, Asker: console.CommandAsker{Env: a.Env}, Confirmed: yes}
			if thread != "" {
				return a.runInThread(ctx, thread, args[0], r)
			}
			return a.runPlugin(ctx, args[0], r, a.editing(args[0], project, yes), run.Call{JSON: true})
		},
	}
	cmd.Flags().StringVar(&thread, "thread", "", "run the command in the process that runs `THREAD`")
	confirming(cmd.Flags(), &yes, &project)
	return cmd
}

// confirming defines the flags of commands that may change something.
func confirming(f *pflag.FlagSet, yes, project *bool) {
	f.BoolVar(yes, "yes", false, "confirm the side effects of the command, and the changes of the configuration that it proposes")
	f.BoolVar(project, "project", false, "make the changes that it proposes in the project's configuration")
}

// editor makes the changes that a command proposes for its plugin's settings, and returns the consents to what the user has agreed to.
type editor func(context.Context, []contract.ConfigEdit) (agreed map[string]pluginset.Consent, err error)

// editing returns an editor that shows the changes, and asks unless yes is set.
func (a *app) editing(label string, project, yes bool) editor {
	return func(ctx context.Context, edits []contract.ConfigEdit) (agreed map[string]pluginset.Consent, err error) {
		home, err := a.Home()
		if err != nil {
			return nil, err
		}
		p, err := a.OpenPrograms(ctx, home, a.Dir)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.Close(ctx)) }()
		file, agreed, err := p.Configure(ctx, label, project, edits, func(file, diff string) bool {
			fmt.Fprintf(a.Stderr, "plugin %q proposes to change %s:\n%s", label, render.Clean(file), render.Plain(diff))
			return yes || a.Confirm(ctx, "Make these changes?")
		})
		switch {
		case errors.Is(err, install.ErrNotAgreed):
			return nil, hint.With(err, "confirm it on a terminal, or with --yes")
		case err == nil && file != "":
			fmt.Fprintf(a.Stderr, "changed %s\n", render.Clean(file))
		}
		return agreed, err
	}
}

// runPlugin runs a command, and those with which the plugin goes on, and prints their output: as JSON, or as text for people. If the plugin goes
// on with a call of a tool, the call is made as c says.
func (a *app) runPlugin(ctx context.Context, label string, r pluginset.CommandRun, edit editor, c run.Call) error {
	for steps := 1; ; steps++ {
		var edits []contract.ConfigEdit
		var before, agreed map[string]pluginset.Consent
		var next *contract.NextCommand
		r.Continue = func(n contract.NextCommand) { next = &n }
		r.Edit = func(ctx context.Context, e []contract.ConfigEdit) (err error) {
			edits = e
			err = a.withBlock(ctx, label, func(p *install.Programs, b *config.PluginBlock) error {
				before, err = p.Consents(ctx, b)
				return err
			})
			if err == nil {
				agreed, err = edit(ctx, e)
			}
			return err
		}
		b, err := a.runStep(ctx, label, r, &next, !c.JSON)
		switch {
		case err != nil || next == nil:
			return err
		case next.Tool:
			c.Plugin, c.Tool, c.Input = label, next.Name, string(next.Input)
			return run.MakeCall(ctx, a.Env, c)
		case steps == maxSteps:
			return fmt.Errorf("the commands of plugin %q do not end: it goes on with %q after %d of them", label, next.Name, steps)
		}
		if b.Program.Kind == source.Builtin {
			// Commands of plugins that come with gantry show what they change, and nothing else is accepted. Others are asked about in full.
			err = a.withBlock(ctx, label, func(p *install.Programs, b *config.PluginBlock) error {
				return p.AcceptEdited(ctx, b, before, agreed, edits)
			})
		} else {
			r.Confirmed = false // the user has named only the first command
		}
		if err != nil {
			return err
		}
		r.Name, r.Input = next.Name, next.Input
	}
}

// maxSteps bounds how often a plugin can go on with another command.
const maxSteps = 20

// withBlock loads the configuration and calls f with a plugin's block.
func (a *app) withBlock(ctx context.Context, label string, f func(*install.Programs, *config.PluginBlock) error) (err error) {
	home, err := a.Home()
	if err != nil {
		return err
	}
	p, err := a.OpenPrograms(ctx, home, a.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	b, err := p.Block(label)
	if err != nil {
		return err
	}
	return f(p, b)
}

// runStep runs one command and prints its output, unless next is set to a call whose result is the output. It returns the block of the plugin.
func (a *app) runStep(ctx context.Context, label string, r pluginset.CommandRun, next **contract.NextCommand, text bool) (b *config.PluginBlock, err error) {
	h, b, err := a.BlockHost(ctx, console.BlockNamed(label), needs(r.Input))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	out, err := h.Plugins().Command(ctx, label, r)
	switch {
	case errors.Is(err, pluginset.ErrNotConfirmed):
		return nil, hint.With(fmt.Errorf("%s: %w", b.Where(), err), nextConfirm)
	case errors.Is(err, pluginset.ErrNoCommand):
		return nil, fmt.Errorf("%s: %w", b.Where(), err)
	case err != nil:
		return nil, err
	}
	if n := *next; n != nil && n.Tool {
		return b, nil
	}
	return b, a.printOutput(out, text)
}

// needs reports which declared processes a command with this input needs: those whose labels are in it. A command without texts in its input
// is about no process in particular, and may need all.
func needs(input json.RawMessage) func(config.Process) bool {
	var object map[string]any
	if json.Unmarshal(input, &object) != nil { // the plugin gets no such input
		return nil
	}
	var texts []string
	for _, v := range object {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return func(p config.Process) bool {
		_, label, _ := strings.Cut(p.Name, ".")
		return slices.Contains(texts, label)
	}
}

// runInThread runs a command in the process that runs a thread. The questions that the plugin asks meanwhile can't be answered there.
func (a *app) runInThread(ctx context.Context, which, label string, r pluginset.CommandRun) (err error) {
	h, err := a.OpenHub(ctx, console.HubOptions{OnlyLooks: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	id, err := console.NamedThread(ctx, h, which)
	if err != nil {
		return err
	}
	t, err := h.Reach(ctx, id)
	if err != nil {
		return err
	}
	c := hub.PluginCommand{Plugin: label, Name: r.Name, Input: r.Input, Confirmed: r.Confirmed}
	out, err := t.RunCommand(ctx, c)
	if err != nil && hub.ErrorOf(err).Code == hub.NotConfirmed {
		if err := a.confirm(ctx, t, label, r); err != nil {
			return err
		}
		c.Confirmed = true
		out, err = t.RunCommand(ctx, c)
	}
	if err != nil {
		return err
	}
	return a.printOutput(out, false)
}

// confirm asks the user whether a command with side effects may run.
func (a *app) confirm(ctx context.Context, t *hub.Thread, label string, r pluginset.CommandRun) error {
	all, err := t.Plugins(ctx)
	if err != nil {
		return err
	}
	spec := contract.CommandSpec{Name: r.Name, SideEffects: true}
	for _, p := range all {
		for _, c := range p.Commands {
			if p.Label == label && c.Name == r.Name {
				spec = c
			}
		}
	}
	err = pluginset.Confirm(ctx, label, spec, r.Asker)
	if errors.Is(err, pluginset.ErrNotConfirmed) {
		return hint.With(err, nextConfirm)
	}
	return err
}

// printOutput prints the output of a command: as JSON, or as text for people.
func (a *app) printOutput(out json.RawMessage, text bool) error {
	if text {
		if shown, ok := render.Output(out); ok {
			fmt.Fprint(a.Stdout, shown)
			return nil
		}
	}
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		return err
	}
	return a.PrintJSON(v)
}
