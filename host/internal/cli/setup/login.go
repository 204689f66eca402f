package setup

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/spf13/cobra"
)

func (a *app) loginCommand() *cobra.Command {
	var device bool
	cmd := &cobra.Command{
		Use: "login PROVIDER", Short: "Log in to a provider that uses OAuth",
		Long: "login obtains a token that the provider uses from then on. It requires an oauth block in the provider's block, with your\n" +
			"own client registration. For a provider that uses a key, run `gantry secret set NAME`, and set api_key = secret(\"NAME\") in\n" +
			"its block.",
		Args: console.Takes(1, 1, "PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			return a.providerCommand(ctx, args[0], "login", map[string]any{"device": device})
		},
	}
	cmd.Flags().BoolVar(&device, "device", false, "log in with a code that you enter on another machine")
	return cmd
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout PROVIDER", Short: "Delete a provider's login", Args: console.Takes(1, 1, "PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			return a.providerCommand(ctx, args[0], "logout", nil)
		},
	}
}

// providerCommand runs a command of a provider and prints its message. By running `gantry login` or `gantry logout`, which do
// nothing else, the user confirms the command's side effects.
func (a *app) providerCommand(ctx context.Context, label, command string, input map[string]any) error {
	message, err := a.ProviderCommand(ctx, label, command, input, console.CommandAsker{Env: a.Env})
	if err == nil && message != "" {
		fmt.Fprintln(a.Stderr, render.Clean(message))
	}
	return err
}
