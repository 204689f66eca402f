package cli

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// openTerminal makes gantry without a command the terminal interface, if there is a terminal. Elsewhere, help says what to use.
func (a *app) openTerminal(root *cobra.Command) {
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 || !a.Terminal() || !term.IsTerminal(int(a.Stdout.Fd())) {
			return run(cmd, args)
		}
		return a.becomeTerminal()
	}
}

// becomeTerminal replaces this process by the terminal interface, a program of its own. It returns only if that fails.
func (a *app) becomeTerminal() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(self), "gantry-tui")
	err = syscall.Exec(program, append([]string{program, "--server", self}, a.args...), a.Environ)
	return hint.New("the terminal interface can't be started: "+program+": "+err.Error(), "install gantry-tui beside gantry, or use `gantry exec`")
}
