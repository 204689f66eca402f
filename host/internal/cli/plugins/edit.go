package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/spf13/cobra"
)

func (a *app) pluginAdd() *cobra.Command {
	var label string
	var project, yes bool
	cmd := &cobra.Command{
		Use: "add [flags] SOURCE", Short: "Configure and lock a plugin", Args: console.Takes(1, 1, "SOURCE"),
		Long: "add shows the program and asks for confirmation. Then it starts the program, confined and without permissions, reads its\n" +
			"manifest, appends a block for it to gantry.hcl, and locks exactly this program. SOURCE is a path that starts with ./,\n" +
			"../, ~/ or /, builtin/NAME, or the name of an installed plugin. The block is added to your own configuration or, with\n" +
			"--project, to the project's .gantry/gantry.hcl.",
		Example: "  gantry plugin add ./bin/weather\n  gantry plugin add --project --label sky ./bin/weather",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error {
				added, err := p.Add(ctx, args[0], label, project, yes)
				if wrong, ok := errors.AsType[*install.ArgumentError](err); ok {
					return console.Usage("%w", wrong.Err)
				}
				if err != nil {
					return err
				}
				a.nextAfterAdd(added)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "label of the block (default: the plugin's name)")
	cmd.Flags().BoolVar(&project, "project", false, "add it to the project's configuration")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "start and accept the program without confirmation")
	return cmd
}

func (a *app) pluginRemove() *cobra.Command {
	var project bool
	cmd := &cobra.Command{
		Use: "remove [flags] NAME", Short: "Remove a plugin's block and its lock", Args: console.Takes(1, 1, "NAME"),
		Long: "remove deletes the block from your own gantry.hcl or, with --project or if it is only there, from the project's, and drops\n" +
			"lock entries that no other block uses. It deletes neither the program nor the plugin's data.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error { return p.Remove(ctx, args[0], project) })
		},
	}
	cmd.Flags().BoolVar(&project, "project", false, "remove it from the project's configuration")
	return cmd
}

// nextAfterAdd prints which settings are still missing.
func (a *app) nextAfterAdd(n *install.Added) {
	b, m := n.Block, n.Manifest
	var required []string
	for _, at := range m.Config.Attributes {
		if at.Required {
			required = append(required, at.Name)
		}
	}
	if len(required) > 0 {
		place := "the block"
		if b.Type == "plugin" {
			place = "its config block"
		}
		fmt.Fprintf(a.Stderr, "Next: set %s in %s, in %s\n", strings.Join(required, ", "), place, n.File)
		return
	}
	if b.Type == "provider" {
		fmt.Fprintf(a.Stderr, "Next: add a model that uses it: model \"NAME\" { provider = %q, name = \"...\" }; `gantry models %s` lists them\n", b.Label, b.Label)
		return
	}
	fmt.Fprintf(a.Stderr, "Next: see what it offers with `gantry plugin inspect %s`\n", b.Label)
}
