// Command gantry-tui is the terminal interface, which gantry starts when it is called without a command on a terminal.
//
// It owns: the process's arguments and streams, and the app server that it starts. It must not know: what is on the screen.
//
// It is a program of its own because what draws a screen would cost each start of gantry time and memory. Start with
// host/internal/tui.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/tui"
	"golang.org/x/term"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() { os.Exit(run(os.Args[1:])) }

// run shows the interface. The arguments are gantry's flags in front of a command; --server PATH, which comes first, names the program
// that serves, by default the gantry beside this one.
func run(args []string) int {
	refuse := func(text, next string) int {
		fmt.Fprintf(os.Stderr, "Error: %s; next: %s\n", text, next)
		return 2
	}
	server := ""
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Println("gantry-tui version", version)
		return 0
	case len(args) >= 2 && args[0] == "--server":
		server, args = args[1], args[2:]
	default:
		self, err := os.Executable()
		if err != nil {
			return refuse(err.Error(), "run gantry, which starts the terminal interface")
		}
		server = filepath.Join(filepath.Dir(self), "gantry")
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
		return refuse("the terminal interface needs a terminal", "without one, use `gantry exec`")
	}
	if t := os.Getenv("TERM"); t == "dumb" || t == "" {
		return refuse("this terminal can't place a cursor (TERM is "+t+")", "use `gantry exec`, or another terminal")
	}
	dir, err := os.Getwd()
	if err != nil {
		return refuse("the current folder can't be read: "+err.Error(), "change to another folder")
	}
	s := &child{program: server, args: args}
	err = tui.Run(context.Background(), tui.Terminal{
		Dial: func(ctx context.Context) (rpc.Stream, error) { return s.start() }, Why: s.said, Dir: dir, Version: version, Editor: editor(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", strings.TrimPrefix(err.Error(), "Error: ")) // which the server has said too
		return 1
	}
	return 0
}

// editor returns how the user edits a file; nil: not known.
func editor() func(path string) tea.ExecCommand {
	command := strings.Fields(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")))
	if len(command) == 0 {
		return nil
	}
	return func(path string) tea.ExecCommand {
		return editing{exec.Command(command[0], append(command[1:len(command):len(command)], path)...)}
	}
}

// editing is a run of the editor in the terminal.
type editing struct{ *exec.Cmd }

func (e editing) SetStdin(r io.Reader)  { e.Stdin = r }
func (e editing) SetStdout(w io.Writer) { e.Stdout = w }
func (e editing) SetStderr(w io.Writer) { e.Stderr = w }
