package plugins

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/spf13/cobra"
)

type newFlags struct{ sdk, dir, module string }

func (a *app) pluginNew() *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use: "new [flags] NAME", Short: "Create a tool plugin in Go", Args: console.Takes(1, 1, "NAME"),
		Long: "new creates a Go module for a plugin that passes the conformance kit. Its go.mod requires the SDK of this gantry's version;\n" +
			"with --sdk, or if gantry runs from its own source tree, it uses the SDK in that folder and needs no network.",
		RunE: func(_ *cobra.Command, args []string) error { return a.newPlugin(args[0], f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.sdk, "sdk", "", "use the SDK source in `PATH`")
	fs.StringVar(&f.dir, "dir", "", "create the module in `DIR` (default: a new folder NAME)")
	fs.StringVar(&f.module, "module", "", "module `PATH` of the plugin (default: example.com/NAME)")
	return cmd
}

func (a *app) newPlugin(name string, f newFlags) error {
	dir := f.dir
	if dir == "" {
		dir = name
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.Dir, dir)
	}
	bin, _ := console.BinDir() // without it there is no source tree that could contain the SDK
	offline, err := install.NewPlugin{Name: name, Dir: dir, Module: f.module, SDK: f.sdk, Bin: bin, Version: a.Version, From: a.Dir}.Write()
	if wrong, ok := errors.AsType[*install.ArgumentError](err); ok {
		return console.Usage("%w", wrong.Err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, dir)
	a.nextAfterNew(dir, name, offline)
	return nil
}

func (a *app) nextAfterNew(dir, name string, offline bool) {
	goCommand := "go"
	if insideWorkspace(dir) {
		goCommand = "GOWORK=off go" // the plugin is not a module of the surrounding workspace
	}
	fmt.Fprintln(a.Stderr, "Next:")
	fmt.Fprintf(a.Stderr, "  cd %s\n", a.Shown(dir))
	if !offline {
		fmt.Fprintf(a.Stderr, "  %s mod tidy\n", goCommand)
	}
	if !offline {
		fmt.Fprintln(a.Stderr, "  (if the SDK can't be downloaded, create the plugin again with --sdk PATH, the sdk folder of gantry's source)")
	}
	fmt.Fprintf(a.Stderr, "  %s build -o bin/%s . && %s test .\n", goCommand, name, goCommand)
	fmt.Fprintf(a.Stderr, "  gantry plugin add ./bin/%s\n", name)
}

func insideWorkspace(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if console.Exists(filepath.Join(dir, "go.work")) {
			return true
		}
		if filepath.Dir(dir) == dir {
			return false
		}
	}
}
