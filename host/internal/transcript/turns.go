package transcript

import (
	"iter"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Turns folds a log, or the part of it that begins with a turn, into turns with their items. Reverted turns are left out. A turn whose end
// the log lacks is in progress, as are its open items, unless another turn follows; only the caller knows whether it still runs, see
// [Stopped]. Events that could not be decoded, which the
// log yields with an error, are skipped; any other error ends the fold.
func Turns(events iter.Seq2[event.Event, error], view protocol.TurnItemsView) ([]protocol.Turn, error) {
	var f Fold
	h := history{view: view}
	for e, err := range events {
		if _, newer := e.Body.(event.Unknown); err != nil && !newer {
			return nil, err
		}
		if e.Body == nil {
			continue
		}
		if r, ok := e.Body.(event.ThreadReverted); ok {
			h.revert(r.From)
		}
		for _, c := range f.Apply(e) {
			h.apply(e.Seq, c)
		}
	}
	for _, it := range f.Open() { // what the log has of them since they started
		if at, ok := h.open[it.Body.Header().ID]; ok {
			h.turns[at.turn].items[at.item] = it
		}
	}
	out := make([]protocol.Turn, 0, len(h.turns))
	for i := range h.turns {
		out = append(out, h.turns[i].show(view))
	}
	return out, nil
}

// history is what a client keeps of a thread's notifications.
type history struct {
	view  protocol.TurnItemsView
	turns []recorded
	// open are the places of items that have started and not completed, by identity for clients.
	open map[string]place
}

// recorded is a turn and its items.
type recorded struct {
	protocol.Turn
	first uint64 // number of its first event
	items []protocol.ThreadItem
}

// place is the place of an item: the indexes of its turn and of the item.
type place struct{ turn, item int }

func (h *history) apply(seq uint64, c Change) {
	switch p := c.Params.(type) {
	case protocol.TurnStartedNotification:
		h.turns = append(h.turns, recorded{Turn: p.Turn, first: seq})
	case protocol.TurnCompletedNotification:
		if t := h.turn(p.Turn.ID); t >= 0 {
			h.turns[t].Turn = p.Turn
		}
	case protocol.ItemStartedNotification:
		t := h.turn(p.TurnID)
		if t < 0 || h.view == protocol.ItemsNotLoaded {
			return
		}
		if h.open == nil {
			h.open = map[string]place{}
		}
		h.turns[t].items = append(h.turns[t].items, p.Item)
		h.open[p.Item.Body.Header().ID] = place{t, len(h.turns[t].items) - 1}
	case protocol.ItemCompletedNotification:
		id := p.Item.Body.Header().ID
		if at, ok := h.open[id]; ok {
			h.turns[at.turn].items[at.item] = p.Item
			delete(h.open, id)
		}
	}
}

// turn returns the index of a turn, which is one of the last; -1: there is none.
func (h *history) turn(id string) int {
	for i := len(h.turns) - 1; i >= 0; i-- {
		if h.turns[i].ID == id {
			return i
		}
	}
	return -1
}

// revert drops the turns from an event on.
func (h *history) revert(from uint64) {
	h.turns = slices.DeleteFunc(h.turns, func(t recorded) bool { return t.first >= from })
	for id, at := range h.open {
		if at.turn >= len(h.turns) {
			delete(h.open, id)
		}
	}
}

// show returns the turn with the items of a view.
func (t *recorded) show(view protocol.TurnItemsView) protocol.Turn {
	out := t.Turn
	out.ItemsView, out.Items = view, Select(t.items, view)
	return out
}

// Select returns the items of a view, without messages that have no text.
func Select(items []protocol.ThreadItem, view protocol.TurnItemsView) []protocol.ThreadItem {
	out := []protocol.ThreadItem{}
	switch view {
	case protocol.ItemsFull:
		for _, it := range items {
			if !isBlank(it) {
				out = append(out, it)
			}
		}
	case protocol.ItemsSummary:
		var first, last *protocol.ThreadItem
		for i := range items {
			switch items[i].Body.(type) {
			case protocol.UserMessageItem:
				if first == nil {
					first = &items[i]
				}
			case protocol.AgentMessageItem:
				if !isBlank(items[i]) {
					last = &items[i]
				}
			}
		}
		for _, it := range []*protocol.ThreadItem{first, last} {
			if it != nil {
				out = append(out, *it)
			}
		}
	}
	return out
}

// isBlank reports whether an item is a completed message or thought without text. It is not part of its turn: it was cut off before the
// first word, or the model has repeated it.
func isBlank(it protocol.ThreadItem) bool {
	if it.Body.Header().CompletedAtMs == nil {
		return false
	}
	switch b := it.Body.(type) {
	case protocol.AgentMessageItem:
		return b.Text == ""
	case protocol.ReasoningItem:
		return len(b.Summary) == 0 && len(b.Content) == 0
	}
	return false
}

// Stopped changes turns that are in progress to interrupted, and ends their items: the thread that they belong to is not loaded. Its
// repair ends them in the same way when it is continued.
func Stopped(turns []protocol.Turn) {
	for i := range turns {
		t := &turns[i]
		if t.Status == protocol.TurnInProgress {
			t.Status = protocol.TurnInterrupted
		}
		t.Items = slices.DeleteFunc(t.Items, unsaid)
		for n := range t.Items {
			t.Items[n] = failed(t.Items[n])
		}
	}
}

// StoppedItems ends items as [Stopped] does. It returns the entries that remain.
func StoppedItems(entries []protocol.ThreadItemEntry) []protocol.ThreadItemEntry {
	entries = slices.DeleteFunc(entries, func(e protocol.ThreadItemEntry) bool { return unsaid(e.Item) })
	for i := range entries {
		entries[i].Item = failed(entries[i].Item)
	}
	return entries
}

// unsaid reports whether an item is a message or a thought that is open.
func unsaid(it protocol.ThreadItem) bool {
	switch it.Body.(type) {
	case protocol.AgentMessageItem, protocol.ReasoningItem:
		return it.Body.Header().CompletedAtMs == nil
	}
	return false
}

// failed returns an item as it is if it has ended, or else as one that has failed.
func failed(it protocol.ThreadItem) protocol.ThreadItem {
	switch b := it.Body.(type) {
	case protocol.CommandExecutionItem:
		if b.Status == protocol.ItemInProgress {
			b.Status = protocol.ItemFailed
			it.Body = b
		}
	case protocol.FileChangeItem:
		if b.Status == protocol.ItemInProgress {
			b.Status = protocol.ItemFailed
			it.Body = b
		}
	case protocol.MCPToolCallItem:
		if b.Status == protocol.ItemInProgress {
			b.Status = protocol.ItemFailed
			it.Body = b
		}
	case protocol.DynamicToolCallItem:
		if b.Status == protocol.ItemInProgress {
			b.Status, b.Success = protocol.ItemFailed, new(false)
			it.Body = b
		}
	}
	return it
}

// WithOpen puts the open items of a running thread, as [Fold.Open] returns them, into the turns of its log, in place of those without
// text that the log has.
func WithOpen(turns []protocol.Turn, open []protocol.ThreadItem) {
	for t := range turns {
		for i, it := range turns[t].Items {
			turns[t].Items[i] = opened(it, open)
		}
	}
}

// WithOpenItems does the same as [WithOpen] with a list of items.
func WithOpenItems(entries []protocol.ThreadItemEntry, open []protocol.ThreadItem) {
	for i := range entries {
		entries[i].Item = opened(entries[i].Item, open)
	}
}

// opened returns the open item that is the same as an item of the log, or the item. IDs of calls may repeat, times distinguish them.
func opened(it protocol.ThreadItem, open []protocol.ThreadItem) protocol.ThreadItem {
	h := it.Body.Header()
	if h.CompletedAtMs != nil {
		return it
	}
	for _, o := range open {
		if oh := o.Body.Header(); oh.ID == h.ID && oh.StartedAtMs != nil && h.StartedAtMs != nil && *oh.StartedAtMs == *h.StartedAtMs {
			return o
		}
	}
	return it
}
