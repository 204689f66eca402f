package console

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Colour reports whether to write ANSI colours to w: if it is a terminal, unless --color overrides it.
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

// Watched reports whether somebody sees what is written to w: it is a terminal.
func Watched(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// LastMessage returns the writer for the last message of a turn: standard output, where scripts expect it, or nil if both streams
// are the same terminal, where the message has already been shown.
func (a *Env) LastMessage() io.Writer {
	if a.sameTerminal() {
		return nil
	}
	return a.Stdout
}

// sameTerminal reports whether standard output and standard error are terminals.
func (a *Env) sameTerminal() bool {
	err, ok := a.Stderr.(*os.File)
	return ok && term.IsTerminal(int(a.Stdout.Fd())) && term.IsTerminal(int(err.Fd()))
}
