package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var project bool
	cmd := &cobra.Command{
		Use: "init", Short: "Create a first gantry.hcl", Args: console.Takes(0, 0),
		Long: "init creates a configuration to start from in gantry's home or, with --project, in .gantry in this folder; gantry then\n" +
			"trusts its content. An existing file is never changed. In gantry's home, init sets what it finds: a vendor whose key is\n" +
			"in the environment, otherwise a model server on this machine (Ollama, llama.cpp, LM Studio, vLLM).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := a.Home()
			if err != nil {
				return err
			}
			dir, folderPerm, perm := home, os.FileMode(0o700), os.FileMode(0o600)
			if project {
				// Meant to be committed, unlike the user's own file.
				dir, folderPerm, perm = filepath.Join(a.Dir, ".gantry"), 0o755, 0o644
			}
			path := filepath.Join(dir, "gantry.hcl")
			if err := os.MkdirAll(dir, folderPerm); err != nil {
				return fmt.Errorf("init: %w", err)
			}
			text, next := config.Starter(), "edit it, check it with `gantry config validate`, and check your setup with `gantry doctor`."
			var say string
			if !project { // which is for everybody, whatever is on this machine
				if f, ok := look(cmd.Context(), a.LookupEnv, servers()); ok && f.model != "" {
					text, say = config.Started(f.block, f.label, f.model), fmt.Sprintf("It uses %s of %q, because of %s.\n", f.model, f.label, f.what)
					next = "try it with `gantry exec \"what is in this folder?\"`, and check your setup with `gantry doctor`."
				}
			}
			if err := writeNew(path, text, perm); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, path)
			fmt.Fprint(a.Stderr, say)
			if project {
				found, err := config.FindProject(a.Dir, home)
				if err != nil {
					return err
				}
				if found == nil || found.Dir != a.Dir {
					return fmt.Errorf("%s would not be read as a project's configuration: is this folder gantry's own home?", path)
				}
				if err := trust.Open(home).Add(cmd.Context(), found.Dir, found.Digest); err != nil {
					return err
				}
			}
			fmt.Fprintln(a.Stderr, "Next: "+next)
			return nil
		},
	}
	cmd.Flags().BoolVar(&project, "project", false, "create .gantry/gantry.hcl in this folder")
	return cmd
}

// writeNew writes a file that must not exist yet.
func writeNew(path, text string, perm os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if errors.Is(err, fs.ErrExist) {
		return hint.With(fmt.Errorf("%s already exists; nothing was changed", path), "edit it, or move it away first")
	}
	if err == nil {
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path)) // leave no partial file
		}
	}
	if err != nil {
		return hint.With(fmt.Errorf("can't write to %s: %w", path, console.PathReason(err)), "free up space, or make its folder writable")
	}
	return nil
}
