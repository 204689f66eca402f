package console

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Colour tells whether w is a terminal that wants colour, unless --color says otherwise.
func (a *Env) Colour(w io.Writer) bool {
	switch a.Flags.Color {
	case "always":
		return true
	case "never":
		return false
	}
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	_, no := a.LookupEnv("NO_COLOR")
	t, _ := a.LookupEnv("TERM")
	return !no && t != "dumb"
}

// LastMessage is where the last message of a turn belongs: standard output, where a script finds it; nil on a terminal that
// shows both streams, where it was seen.
func (a *Env) LastMessage() io.Writer {
	if a.sameTerminal() {
		return nil
	}
	return a.Stdout
}

// sameTerminal tells whether standard output and standard error are shown on one terminal.
func (a *Env) sameTerminal() bool {
	err, ok := a.Stderr.(*os.File)
	return ok && term.IsTerminal(int(a.Stdout.Fd())) && term.IsTerminal(int(err.Fd()))
}
