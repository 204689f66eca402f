package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-agent/gantry/host/internal/event"
	"golang.org/x/term"
)

// view chooses how events are shown. asks: questions are put to the person at the terminal, on the same screen; nil: they are
// only shown.
func (a *app) view(f execFlags, asks *asks) view {
	switch {
	case f.json:
		return jsonlView{newJSONL(a.stdout)}
	case f.events:
		return &eventsView{out: a.stdout}
	}
	h := newHuman(a.stderr, a.colour(a.stderr), f.verbose)
	if asks != nil {
		h.out, h.asks = asks.screen, asks.attends
	}
	return humanView{h, a}
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

type humanView struct {
	*human
	app *app
}

func (v humanView) Started(id event.ThreadID) { v.line("%s", v.paint(dim, "thread "+string(id))) }

func (v humanView) Event(e event.Event, _ bool) error {
	v.human.Event(e)
	return nil
}

// Ended prints the last message on standard output, where a script finds it; on a terminal that shows both, it was seen.
func (v humanView) Ended(e event.TurnEnded) error {
	if e.LastMessage == "" || v.app.sameTerminal() {
		return nil
	}
	_, err := fmt.Fprintln(v.app.stdout, e.LastMessage)
	return err
}

// sameTerminal tells whether standard output and standard error are shown on one terminal.
func (a *app) sameTerminal() bool {
	err, ok := a.stderr.(*os.File)
	return ok && term.IsTerminal(int(a.stdout.Fd())) && term.IsTerminal(int(err.Fd()))
}

type jsonlView struct{ *jsonl }

func (v jsonlView) Started(id event.ThreadID)         { v.jsonl.Started(id) }
func (v jsonlView) Ended(event.TurnEnded) error       { return nil }
func (v jsonlView) Event(e event.Event, _ bool) error { return v.jsonl.Event(e) }

// eventsView prints every event as a line.
type eventsView struct {
	out   io.Writer
	lines []byte // not written yet
}

// maxUnwritten bounds what is gathered before it is written. A pipe takes and frees as much at once: a reader that is slower than
// the thread shows that it reads as often as with a write for each line.
const maxUnwritten = 4 << 10

func (*eventsView) Started(event.ThreadID) {}

// Event writes as soon as nothing more waits: under load one write is for many lines, and a lone one is never held back.
func (v *eventsView) Event(e event.Event, more bool) error {
	lines, err := e.AppendJSON(v.lines)
	if err != nil {
		return err
	}
	v.lines = append(lines, '\n')
	if more && len(v.lines) < maxUnwritten {
		return nil
	}
	return v.write()
}

func (v *eventsView) Ended(event.TurnEnded) error { return v.write() }

func (v *eventsView) write() error {
	_, err := v.out.Write(v.lines)
	v.lines = v.lines[:0]
	return err
}
