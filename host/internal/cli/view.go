package cli

import (
	"encoding/json"
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
		return eventsView{json.NewEncoder(a.stdout)}
	}
	h := newHuman(a.stderr, a.colour(a.stderr), f.verbose)
	if asks != nil {
		h.out, h.asks = asks.screen, asks.attends
	}
	return humanView{h, a}
}

// colour tells whether w is a terminal that wants colour.
func (a *app) colour(w io.Writer) bool {
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

func (v humanView) Event(e event.Event) error {
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

func (v jsonlView) Started(id event.ThreadID)   { v.jsonl.Started(id) }
func (v jsonlView) Ended(event.TurnEnded) error { return nil }
func (v jsonlView) Event(e event.Event) error   { return v.jsonl.Event(e) }

type eventsView struct{ enc *json.Encoder }

func (eventsView) Started(event.ThreadID)      {}
func (eventsView) Ended(event.TurnEnded) error { return nil }
func (v eventsView) Event(e event.Event) error { return v.enc.Encode(e) }
