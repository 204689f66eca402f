package cli

import (
	"io"
	"os"

	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"golang.org/x/term"
)

// view chooses how events are shown. asks: questions are put to the person at the terminal, on the same screen; nil: they are
// only shown.
func (a *app) view(f execFlags, asks *asks) render.View {
	switch {
	case f.json:
		return render.JSONLines(a.stdout)
	case f.events:
		return render.EventLines(a.stdout)
	}
	h := render.NewHuman(a.stderr, a.colour(a.stderr), f.verbose)
	if asks != nil {
		h.ShowOn(asks.screen, asks.attends)
	}
	return render.HumanView{Human: h, Last: a.lastMessage()}
}

// colour tells whether w is a terminal that wants colour, unless --color says otherwise.
func (a *app) colour(w io.Writer) bool {
	switch a.flags.color {
	case "always":
		return true
	case "never":
		return false
	}
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	_, no := a.env("NO_COLOR")
	t, _ := a.env("TERM")
	return !no && t != "dumb"
}

// lastMessage is where the last message of a turn belongs: standard output, where a script finds it; nil on a terminal that
// shows both streams, where it was seen.
func (a *app) lastMessage() io.Writer {
	if a.sameTerminal() {
		return nil
	}
	return a.stdout
}

// sameTerminal tells whether standard output and standard error are shown on one terminal.
func (a *app) sameTerminal() bool {
	err, ok := a.stderr.(*os.File)
	return ok && term.IsTerminal(int(a.stdout.Fd())) && term.IsTerminal(int(err.Fd()))
}
