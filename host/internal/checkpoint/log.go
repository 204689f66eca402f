package checkpoint

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Record is what a log says of the files of one turn, or of one undo.
type Record struct {
	ID event.TurnID
	// Number is the place of a turn among those that count, from 1; 0: it is an undo, or the conversation does not know of it any
	// more.
	Number  int
	Turn    bool // it is a turn
	Time    time.Time
	Changes Changes
	// Undoes are the turns and undos that this undo took back; empty: it is a turn.
	Undoes []event.TurnID
	Undone bool // it was taken back, and that was not
	// Ended: of an undo, that it was not cut off.
	Ended    bool
	Commands int // calls that ran commands: what only they changed is not among the changes
	Skipped  int // paths that were too many to be looked at

	seq      uint64 // of its first event
	reverted bool
}

// Read finds the turns and undos of a thread in its log, in their order. It looks at turns without changes, too: they count.
func Read(events iter.Seq2[event.Event, error]) ([]Record, error) {
	var out []*Record
	byID := map[event.TurnID]*Record{}
	record := func(e event.Event) *Record {
		r := byID[e.Turn]
		if r == nil {
			r = &Record{ID: e.Turn, Time: e.Time, seq: e.Seq}
			byID[e.Turn] = r
			out = append(out, r)
		}
		return r
	}
	for e, err := range events {
		if _, unreadable := e.Body.(event.Unknown); err != nil && !unreadable {
			return nil, err
		}
		switch b := e.Body.(type) {
		case event.TurnStarted:
			record(e).Turn = true
		case event.ThreadReverted: // the conversation, not the files
			for _, r := range out {
				r.reverted = r.reverted || r.seq >= b.From
			}
		case event.CallStarted:
			if runs(b) {
				record(e).Commands++
			}
		case event.FilesKept:
			r := record(e)
			r.Undoes = b.Undoes
			r.Skipped += b.Skipped
			r.Changes.AddBefore(b)
		case event.FilesChanged:
			r := record(e)
			r.Changes.AddAfter(b)
			if len(b.Undoes) > 0 {
				r.Undoes, r.Ended = b.Undoes, true
				undone(byID, r, true)
			}
		}
	}
	list := make([]Record, 0, len(out))
	n := 0
	for _, r := range out {
		if r.Turn && !r.reverted {
			n++
			r.Number = n
		}
		list = append(list, *r)
	}
	return list, nil
}

// undone marks what an undo took back. What took back an undo brought back what that had taken.
func undone(byID map[event.TurnID]*Record, undo *Record, is bool) {
	for _, id := range undo.Undoes {
		if r := byID[id]; r != nil && r.Undone != is {
			r.Undone = is
			if len(r.Undoes) > 0 {
				undone(byID, r, !is)
			}
		}
	}
}

func runs(c event.CallStarted) bool {
	for _, e := range c.Effects {
		if e.Type == "exec" && !c.ReadOnly && c.Attempt <= 1 {
			return true
		}
	}
	return false
}

// Find returns the place of a turn or an undo by what a person calls it: the number of a turn, the beginning of an id.
func Find(list []Record, which string) (int, error) {
	if n, err := strconv.Atoi(which); err == nil && len(which) < 8 {
		for i, r := range list {
			if r.Number == n && n > 0 {
				return i, nil
			}
		}
	}
	found := -1
	for i, r := range list {
		if which == "" || !strings.HasPrefix(string(r.ID), strings.ToLower(which)) {
			continue
		}
		if found >= 0 {
			return -1, hint.With(fmt.Errorf("%q matches several turns", which), "use more of the id")
		}
		found = i
	}
	if found < 0 {
		return -1, hint.With(fmt.Errorf("the thread has no turn %q", which), "`gantry threads turns` lists them")
	}
	return found, nil
}
