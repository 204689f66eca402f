// Package render displays the events of a thread: for users on a terminal, as the JSON lines of codex's exec, or as raw events.
//
// It owns what events and questions look like, which answers a question accepts, and that text from a model or a tool cannot
// control a terminal. It does not know the command line, how a thread runs, or where events come from.
//
// Start with [View]; [Human] is the view for users.
package render

import (
	"fmt"
	"io"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// View shows a thread's events.
type View interface {
	Started(id event.ThreadID)
	// Event shows an event. more is set if the next one is already available, so that the view need not flush yet.
	Event(e event.Event, more bool) error
	Ended(e event.TurnEnded) error
}

// HumanView shows events to a user, and writes the last message where scripts expect it.
type HumanView struct {
	*Human
	Last io.Writer // nil: the last message is shown like other events
}

// Started shows the thread's ID.
func (v HumanView) Started(id event.ThreadID) { v.line("%s", v.paint(dim, "thread "+string(id))) }

// Event shows one event.
func (v HumanView) Event(e event.Event, _ bool) error {
	v.Human.Event(e)
	return nil
}

// Ended prints the last message, unless it has already been shown.
func (v HumanView) Ended(e event.TurnEnded) error {
	if e.LastMessage == "" || v.Last == nil {
		return nil
	}
	_, err := fmt.Fprintln(v.Last, e.LastMessage)
	return err
}

// JSONLines returns a view that writes the lines of codex's exec.
func JSONLines(w io.Writer) View { return jsonlView{newJSONL(w)} }

// EventLines returns a view that writes each event as a line of JSON.
func EventLines(w io.Writer) View { return &eventsView{out: w} }

type jsonlView struct{ *jsonl }

func (v jsonlView) Started(id event.ThreadID)         { v.jsonl.Started(id) }
func (v jsonlView) Ended(event.TurnEnded) error       { return nil }
func (v jsonlView) Event(e event.Event, _ bool) error { return v.jsonl.Event(e) }

// eventsView writes each event as a line of JSON.
type eventsView struct {
	out   io.Writer
	lines []byte // not written yet
}

// maxUnwritten limits the buffer. Pipes use buffers of this size, so a slow reader receives lines as often as with one write per
// line.
const maxUnwritten = 4 << 10

func (*eventsView) Started(event.ThreadID) {}

// Event flushes as soon as no more events are available: under load, one write covers many lines, and a single event is never
// delayed.
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
