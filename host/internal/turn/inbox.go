package turn

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Input is what a user said.
type Input struct {
	Parts []llm.Part
	Item  event.ItemID // empty: one is made
	// Context is what a client says beside it, by key; a key that it said before is replaced, and an empty text takes it away.
	Context map[string]string
	// Notes are recorded as they are, in the place of Parts: the host tells the model what the user did elsewhere.
	Notes []llm.Message
}

func (in Input) empty() bool { return len(in.Parts) == 0 && len(in.Notes) == 0 }

// Blank reports whether there is nothing in it that a model could answer.
func (in Input) Blank() bool {
	return !slices.ContainsFunc(in.Parts, func(p llm.Part) bool {
		t, ok := p.(*llm.Text)
		return !ok || strings.TrimSpace(t.Text) != ""
	})
}

// maxInbox is how many inputs wait for one sampling boundary; a person does not type more, a program should wait.
const maxInbox = 512

// Inbox takes what a user says while a turn runs. Safe for concurrent use.
type Inbox struct {
	signal *Signal // nil: none
	mu     struct {
		sync.Mutex
		inputs []Input
		closed bool
	}
}

// Add hands over an input and reports whether the turn took responsibility for it. After the turn's end, and when the
// inbox is full, it does not.
func (b *Inbox) Add(in Input) bool {
	defer b.signal.ring() // without the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed || len(b.mu.inputs) >= maxInbox {
		return false
	}
	b.mu.inputs = append(b.mu.inputs, in)
	return true
}

// Take empties the inbox.
func (b *Inbox) Take() []Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.mu.inputs
	b.mu.inputs = nil
	return out
}

// Closed reports whether the turn takes nothing any more: it ends.
func (b *Inbox) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.closed
}

// Empty reports whether nothing waits in it.
func (b *Inbox) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.inputs) == 0
}

// CloseIfEmpty closes the inbox if nothing waits in it, and reports whether it did.
func (b *Inbox) CloseIfEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.inputs) > 0 {
		return false
	}
	b.mu.closed = true
	return true
}

// Close closes the inbox and returns what waited in it. Idempotent.
func (b *Inbox) Close() []Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	out := b.mu.inputs
	b.mu.inputs = nil
	return out
}

// recordInput records an input, and tells whether it did: hooks may hold it back.
func (r *runner) recordInput(ctx context.Context, in Input) (bool, error) {
	switch {
	case in.empty():
		return false, nil
	case len(in.Notes) > 0:
		return true, r.record(ctx, in.Notes...)
	}
	held, more, err := r.heldBack(ctx, in)
	if held || err != nil {
		return false, err
	}
	if listeners := each[ClientContextListener](r.Participants); len(in.Context) > 0 && len(listeners) > 0 {
		for _, l := range listeners {
			l.OnClientContext(in.Context)
		}
		if err := r.recordContext(ctx); err != nil {
			return false, err
		}
	}
	item := UserItem(in)
	m := llm.Message{Role: llm.RoleUser, Parts: in.Parts}
	if err := r.write(ctx, event.HistoryAdded{Messages: []llm.Message{m}}, event.ItemCompleted{Item: item}); err != nil {
		return false, err
	}
	r.uncommitted = r.last
	r.stops = stops{}
	return true, r.tell(ctx, more...)
}

// UserItem shows what a user said.
func UserItem(in Input) event.Item {
	item := event.Item{ID: in.Item, Type: event.ItemUserMessage, Status: event.StatusCompleted}
	if item.ID == "" {
		item.ID = event.NewItemID()
	}
	for _, p := range in.Parts {
		switch p := p.(type) {
		case *llm.Text:
			item.Text += p.Text
		case *llm.Media:
			item.Images = append(item.Images, slices.Compact([]string{p.Artifact, p.Filename})[0])
		}
	}
	return item
}
