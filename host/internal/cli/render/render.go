// Package render shows the events of a thread: to a person on a terminal, as the JSON lines of codex's exec, or as events
// line by line.
//
// It owns: what an event looks like, what a question shows and which answers it takes, and that nothing a model or a tool
// wrote can control a terminal. It must not know: the command line, how a thread runs, where events come from.
//
// Start with [View]; [Human] is the view for people.
package render

import (
	"fmt"
	"io"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// View shows a thread's events.
type View interface {
	Started(id event.ThreadID)
	// Event shows one event. more: the next one is there already, so that this one need not be seen before it.
	Event(e event.Event, more bool) error
	Ended(e event.TurnEnded) error
}

// HumanView shows events to a person, and the last message where a script finds it.
type HumanView struct {
	*Human
	Last io.Writer // nil: the last message is seen among the events
}

// Started shows the thread's ID.
func (v HumanView) Started(id event.ThreadID) { v.line("%s", v.paint(dim, "thread "+string(id))) }

// Event shows one event.
func (v HumanView) Event(e event.Event, _ bool) error {
	v.Human.Event(e)
	return nil
}

// Ended prints the last message, unless it was seen.
func (v HumanView) Ended(e event.TurnEnded) error {
	if e.LastMessage == "" || v.Last == nil {
		return nil
	}
	_, err := fmt.Fprintln(v.Last, e.LastMessage)
	return err
}

// JSONLines writes the lines of codex's exec.
func JSONLines(w io.Writer) View { return jsonlView{newJSONL(w)} }

// EventLines prints every event as a line.
func EventLines(w io.Writer) View { return &eventsView{out: w} }

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
