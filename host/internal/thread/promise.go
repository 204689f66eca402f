package thread

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// submitDurably is submit for input that must survive a restart of the host once the caller has been told that it was accepted.
func (t *Thread) submitDurably(ctx context.Context, m submitMsg) (a Accepted, err error) {
	if id := m.Input.ClientID; id != "" {
		first := false
		if a, first, err = t.sending.begin(ctx, id, t.bus); err != nil || !first {
			return a, err
		}
		defer func() { t.sending.done(id, a, err) }()
	}
	if m.Input.Item == "" {
		m.Input.Item = event.NewItemID()
	}
	promise, err := t.bus.promise(ctx, m.Input.Item)
	if err != nil {
		return Accepted{}, err
	}
	a, err = t.submit(ctx, m)
	if err != nil {
		promise.drop()
		return a, err
	}
	crashpoint.At(crashpoint.InputAccepted, "")
	err = promise.keep(event.InputAccepted{Turn: a.Turn, Item: m.Input.Item, Message: llm.Message{Role: llm.RoleUser, Parts: m.Input.Parts}, ClientID: m.Input.ClientID})
	if err != nil { // the store has reported that it can't write; the turn has the input in any case
		t.cfg.Logger.Warn("accepted input is not stored yet", "thread", t.cfg.ID, "turn", a.Turn, "err", err)
	}
	crashpoint.At(crashpoint.InputDurable, "")
	return a, nil
}

// promise is input whose sender is to be told that it was accepted. A turn may record it before that or much later; in the second
// case, an event of its own keeps it in the meantime.
type promise struct {
	bus  *bus
	item event.ItemID
}

// promise registers input before it is handed over, so that the bus sees when it is recorded.
func (b *bus) promise(ctx context.Context, item event.ItemID) (promise, error) {
	if err := b.lock(ctx); err != nil {
		return promise{}, err
	}
	defer b.unlock()
	if b.st.closed {
		return promise{}, ErrClosed
	}
	b.st.promised[item] = false
	return promise{b, item}, nil
}

// heard notes promised input that is now in the history. The caller holds publishing.
func (b *bus) heard(e event.Event) {
	done, ok := e.Body.(event.ItemCompleted)
	if !ok {
		return
	}
	if _, ok := b.st.promised[done.Item.ID]; ok {
		b.st.promised[done.Item.ID] = true
	}
}

// drop removes the promise of input that was not accepted.
func (p promise) drop() {
	p.bus.publishing <- struct{}{} // held while a publisher waits for the slowest subscriber
	defer p.bus.unlock()
	delete(p.bus.st.promised, p.item)
}

// keep returns when the input is durable, as part of the history or as an event of its own.
func (p promise) keep(in event.InputAccepted) error {
	b := p.bus
	b.publishing <- struct{}{} // as above
	seq, recorded := b.st.seq, b.st.promised[p.item]
	delete(b.st.promised, p.item)
	var err error
	if !recorded {
		seq, err = b.publishLocked(context.Background(), "", []event.Body{in})
	}
	b.unlock()
	if err != nil {
		return err
	}
	return b.Barrier(context.Background(), seq) // the store limits how long that can take
}
