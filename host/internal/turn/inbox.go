package turn

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Input is what a user says.
type Input struct {
	Parts []llm.Part
	Item  event.ItemID // empty: a new one is assigned
	// ClientID is the client's identity of the input; empty: it has none.
	ClientID string
	// Context is additional context from a client, by key. It replaces an earlier text with the same key; an empty text removes
	// it.
	Context map[string]string
	// Continue: there are no Parts. The model is asked with the history as it is; a running turn only gets the Context.
	Continue bool
	// Adjust changes the running turn, instead of Parts.
	Adjust Adjustment
	// Notes are recorded as they are, instead of Parts. The host tells the model with them what the user did outside the
	// conversation.
	Notes []llm.Message
}

func (in Input) empty() bool { return len(in.Parts) == 0 && len(in.Notes) == 0 }

// Blank reports whether there is nothing that a model could answer.
func (in Input) Blank() bool {
	return !in.Continue && !slices.ContainsFunc(in.Parts, func(p llm.Part) bool {
		t, ok := p.(*llm.Text)
		return !ok || strings.TrimSpace(t.Text) != ""
	})
}

// Adjustment changes the settings of a running turn, from the next request to the model on. Empty fields change nothing.
type Adjustment struct {
	Model  string `json:"model,omitempty"`  // as a user names it
	Effort string `json:"effort,omitempty"` // reasoning effort; with a Model, empty means the model's own
}

// after returns the adjustment that has the effect of an earlier one, and then of a.
func (a Adjustment) after(earlier Adjustment) Adjustment {
	if a.Model == "" {
		return Adjustment{earlier.Model, cmp.Or(a.Effort, earlier.Effort)}
	}
	return a
}

// maxInbox limits the inputs that wait for the next request. A person does not type that many, and a program should wait.
const maxInbox = 512

// Inbox holds input that arrives while a turn runs. It is safe for concurrent use.
type Inbox struct {
	signal *Signal // nil: none
	mu     struct {
		sync.Mutex
		inputs []Input
		adjust Adjustment
		closed bool
	}
}

// Add adds an input and reports whether the turn will read it. It won't if the turn has ended or the inbox is full.
func (b *Inbox) Add(in Input) bool {
	defer b.signal.ring() // after unlocking
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed || len(b.mu.inputs) >= maxInbox {
		return false
	}
	b.mu.inputs = append(b.mu.inputs, in)
	return true
}

// Adjust changes the turn's settings and reports whether the turn may still make a request with them.
func (b *Inbox) Adjust(a Adjustment) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return false
	}
	b.mu.adjust = a.after(b.mu.adjust)
	return true
}

// adjustment removes and returns the changes of the turn's settings.
func (b *Inbox) adjustment() Adjustment {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.mu.adjust
	b.mu.adjust = Adjustment{}
	return a
}

// Take removes and returns the inputs.
func (b *Inbox) Take() []Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.mu.inputs
	b.mu.inputs = nil
	return out
}

// Closed reports whether the turn accepts no more input because it is ending.
func (b *Inbox) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.closed
}

// Empty reports whether no input waits.
func (b *Inbox) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.inputs) == 0
}

// CloseIfEmpty closes the inbox if no input waits, and reports whether it did.
func (b *Inbox) CloseIfEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.inputs) > 0 {
		return false
	}
	b.mu.closed = true
	return true
}

// Close closes the inbox and returns the inputs that waited. It is idempotent.
func (b *Inbox) Close() []Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	out := b.mu.inputs
	b.mu.inputs = nil
	return out
}

// recordInput records an input and reports whether it did: hooks may block it.
func (r *runner) recordInput(ctx context.Context, in Input) (bool, error) {
	switch {
	case len(in.Notes) > 0:
		return true, r.record(ctx, in.Notes...)
	case in.empty():
		return len(in.Context) > 0, r.recordClientContext(ctx, in)
	}
	held, more, err := r.checkPrompt(ctx, in)
	if held || err != nil {
		return false, err
	}
	if err := r.recordClientContext(ctx, in); err != nil {
		return false, err
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

// recordClientContext records the additional context of an input.
func (r *runner) recordClientContext(ctx context.Context, in Input) error {
	listeners := each[ClientContextListener](r.Participants)
	if len(in.Context) == 0 || len(listeners) == 0 {
		return nil
	}
	for _, l := range listeners {
		l.OnClientContext(in.Context)
	}
	return r.recordContext(ctx)
}

// UserItem returns the item that shows an input.
func UserItem(in Input) event.Item {
	item := event.Item{ID: in.Item, Type: event.ItemUserMessage, Status: event.StatusCompleted, ClientID: in.ClientID}
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
