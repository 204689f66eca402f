// Package queue is the queue of a thread: what its user has written for later turns.
//
// It owns: the entries and their order, the changes that clients make to them, and their form in the log. It does not know: when a turn
// begins, who the clients are, or how they show the queue.
//
// Start with [Feature] and [Decide].
package queue

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// ID is the ID of the feature. Its state is a list of [Entry].
const ID = event.QueueFeature

// Bounds of a queue. The entries are part of each checkpoint of the thread.
const (
	MaxEntries = 100
	MaxBytes   = 32 << 20 // of all entries as JSON
)

// Entry is input that waits for a turn of its own.
type Entry struct {
	ID       event.ItemID `json:"id"` // also of the message's item, once its turn has begun
	ClientID string       `json:"clientId,omitempty"`
	Parts    llm.Parts    `json:"parts"`
	// Form is the input as the client wrote it, for those who edit it; nil: it was not kept.
	Form json.RawMessage `json:"form,omitempty"`
}

// Op is a kind of change.
type Op string

// The kinds of changes.
const (
	Add    Op = "add"    // at the end
	Update Op = "update" // what an entry says
	Delete Op = "delete"
	Order  Op = "order" // all entries
)

// Change is a change of a queue.
type Change struct {
	Op    Op             `json:"op"`
	Entry *Entry         `json:"entry,omitempty"` // of Add and Update
	ID    event.ItemID   `json:"id,omitempty"`    // of Delete
	Order []event.ItemID `json:"order,omitempty"` // of Order: the IDs of all entries
}

// EntriesOf decodes a state.
func EntriesOf(state json.RawMessage) ([]Entry, error) {
	if state == nil {
		return nil, nil
	}
	var entries []Entry
	if err := json.Unmarshal(state, &entries); err != nil {
		return nil, fmt.Errorf("queue of the thread: %w", err)
	}
	return entries, nil
}

// GoneError says that an entry is not in the queue.
type GoneError struct{ ID event.ItemID }

// Error implements error.
func (e *GoneError) Error() string { return fmt.Sprintf("queued submission not found: %s", e.ID) }

// NextStep implements hint.Stepper.
func (*GoneError) NextStep() string {
	return "list the queue: the submission was deleted, or its turn has begun"
}

// InvalidError says why a change is not possible.
type InvalidError struct{ Message, Next string }

// Error implements error.
func (e *InvalidError) Error() string { return e.Message }

// NextStep implements hint.Stepper.
func (e *InvalidError) NextStep() string { return e.Next }

// Decide checks a change against a state, and returns the queue after it and the data of its [event.FeatureChanged].
func Decide(state json.RawMessage, c Change) (after []Entry, data json.RawMessage, err error) {
	entries, err := EntriesOf(state)
	if err != nil {
		return nil, nil, err
	}
	if after, err = c.apply(entries); err != nil {
		return nil, nil, err
	}
	if len(after) > MaxEntries {
		return nil, nil, &InvalidError{fmt.Sprintf("the queue has %d submissions, which is the maximum", MaxEntries), "delete one, or wait for the next turn"}
	}
	if data, err = json.Marshal(after); err != nil {
		return nil, nil, err
	}
	if len(data) > MaxBytes {
		return nil, nil, &InvalidError{fmt.Sprintf("the queue would have more than %d MiB", MaxBytes>>20), "submit large images when their turn can begin"}
	}
	data, err = json.Marshal(c)
	return after, data, err
}

// apply returns the entries after the change. It does not change its argument.
func (c Change) apply(entries []Entry) ([]Entry, error) {
	at := func(id event.ItemID) (int, error) {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == id })
		if i < 0 {
			return 0, &GoneError{id}
		}
		return i, nil
	}
	switch c.Op {
	case Add:
		if c.Entry == nil || c.Entry.ID == "" || (turn.Input{Parts: c.Entry.Parts}).Blank() {
			return nil, &InvalidError{"input must not be empty", ""}
		}
		if _, err := at(c.Entry.ID); err == nil {
			return nil, &InvalidError{fmt.Sprintf("queued submission %s is in the queue already", c.Entry.ID), ""}
		}
		return append(slices.Clip(entries), *c.Entry), nil
	case Update:
		if c.Entry == nil || (turn.Input{Parts: c.Entry.Parts}).Blank() {
			return nil, &InvalidError{"input must not be empty", ""}
		}
		i, err := at(c.Entry.ID)
		if err != nil {
			return nil, err
		}
		out := slices.Clone(entries)
		out[i].Parts, out[i].Form = c.Entry.Parts, c.Entry.Form
		return out, nil
	case Delete:
		i, err := at(c.ID)
		if err != nil {
			return nil, err
		}
		return slices.Delete(slices.Clone(entries), i, i+1), nil
	case Order:
		var out []Entry
		for _, id := range c.Order {
			i, err := at(id)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(out, func(e Entry) bool { return e.ID == id }) {
				return nil, &InvalidError{fmt.Sprintf("queued submission %s is named twice", id), "name each one once"}
			}
			out = append(out, entries[i])
		}
		if len(out) != len(entries) {
			return nil, &InvalidError{fmt.Sprintf("the order names %d of %d queued submissions", len(out), len(entries)), "list the queue, and name all of them"}
		}
		return out, nil
	}
	return nil, &InvalidError{fmt.Sprintf("unknown change %q of a queue", c.Op), ""}
}

// Feature keeps the queue with the thread.
type Feature struct{}

// ID implements thread.Feature.
func (Feature) ID() string { return ID }

// Lasting implements thread.Lasting: a revert takes turns back, not what the user wants next.
func (Feature) Lasting() {}

// Apply implements thread.Feature. An entry leaves the queue with the event that says that a turn has got it, so it is never lost and
// never used twice.
func (Feature) Apply(state json.RawMessage, e event.Event) json.RawMessage {
	var c Change
	switch b := e.Body.(type) {
	case event.FeatureChanged:
		if b.Feature != ID || json.Unmarshal(b.Data, &c) != nil {
			return state
		}
	case event.InputAccepted:
		c = Change{Op: Delete, ID: b.Item}
	case event.ItemCompleted:
		c = Change{Op: Delete, ID: b.Item.ID}
	case event.ThreadForked:
		return nil // the thread goes on with it, not its copy
	}
	if c.Op == "" || state == nil && c.Op != Add {
		return state
	}
	entries, err := EntriesOf(state)
	if err != nil {
		return state
	}
	if entries, err = c.apply(entries); err != nil {
		return state // another item; other changes were checked before they were published
	}
	if len(entries) == 0 {
		return nil
	}
	next, err := json.Marshal(entries)
	if err != nil {
		return state
	}
	return next
}

// NextInput implements thread.Supplier.
func (Feature) NextInput(state json.RawMessage, id event.ItemID) (in turn.Input, ok bool) {
	entries, err := EntriesOf(state)
	if err != nil {
		return in, false
	}
	for _, e := range entries {
		if id == "" || e.ID == id {
			return turn.Input{Parts: e.Parts, Item: e.ID, ClientID: e.ClientID}, true
		}
	}
	return in, false
}
