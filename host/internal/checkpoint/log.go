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

// Record is the record of one turn or one undo in a log, with its changes of files.
type Record struct {
	ID event.TurnID
	// Number is the position of a turn among those that are not reverted, from 1. It is 0 for undos and reverted turns.
	Number  int
	Turn    bool // it is a turn
	Time    time.Time
	Changes Changes
	// Undoes are the turns and undos that this undo has undone; it is empty for a turn.
	Undoes []event.TurnID
	Undone bool // it was undone, and that was not undone in turn
	// Ended: the undo was not interrupted.
	Ended    bool
	Commands int // number of calls that ran commands, whose changes may be missing
	Skipped  int // number of paths beyond the limit, which were not inspected

	seq      uint64 // of its first event
	reverted bool
}

// Read returns the turns and undos in a thread's log, in order. Turns without changes are included, since they are numbered.
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
		case event.ThreadReverted: // reverts the conversation, but not the files
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

// undone marks the turns and undos that an undo has undone. Undoing an undo restores what that had undone.
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

// Find returns the index of the turn or undo that a user names: by the number of a turn, or by a prefix of an ID.
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
