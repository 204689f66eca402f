package thread

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// Posted says what became of mail.
type Posted struct {
	Item event.ItemID // that it becomes when it is read
	// Turn is the turn that runs, which reads it if it has not spoken its last word by then, or the one that the mail began; empty: it
	// waits for the next one.
	Turn event.TurnID
	// Began: the mail began the turn.
	Began bool
}

// Post puts mail of another agent into the thread's mailbox. A turn that runs reads it before its next request, and is cut off for
// it behind a thought or a remark; behind its answer it is not: then the mail waits for the next turn. Where no turn runs, mail
// that triggers one begins it, and other mail waits; so does all mail where the thread is about to end. When Post returns without an error, the mail outlives the host. With one,
// nothing was taken.
func (t *Thread) Post(ctx context.Context, m event.Mail) (Posted, error) {
	if err := m.Check(); err != nil {
		return Posted{}, err
	}
	if t.archived.Load() {
		return Posted{}, ErrArchived
	}
	seq, err := t.post(ctx, &m)
	if err != nil {
		return Posted{}, err
	}
	crashpoint.At(crashpoint.InputAccepted, "")
	// From here on it is taken, whether or not somebody waits for the answer.
	if err := t.bus.Barrier(context.WithoutCancel(ctx), seq); err != nil { // the store bounds how long that can take
		t.cfg.Logger.Warn("mail is not stored yet", "thread", t.cfg.ID, "err", err)
	}
	crashpoint.At(crashpoint.InputDurable, "")
	call := mailMsg{make(chan Posted, 1)}
	p := Posted{Item: m.Item}
	select {
	case t.mailed <- call:
		p = <-call.reply
		p.Item = m.Item
	case <-t.done: // who goes on with the thread finds it
	}
	return p, nil
}

// post writes mail into the log and puts it into the box, in one order: the log must have it before it says that it was read.
func (t *Thread) post(ctx context.Context, m *event.Mail) (uint64, error) {
	select {
	case <-t.opened: // nothing stands before its beginning
	case <-t.done:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	select {
	case t.posting <- struct{}{}:
		defer func() { <-t.posting }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if t.mail.Full() {
		return 0, turn.ErrMailboxFull
	}
	m.Item = event.NewItemID()
	seq, err := t.bus.Publish(ctx, "", event.MailPosted{Mail: *m})
	if err != nil {
		return 0, err
	}
	t.mail.Add(*m)
	return seq, nil
}

// mailMsg tells the owner that mail has come.
type mailMsg struct{ reply chan Posted } // one slot

// post decides what mail does to a thread: where nothing runs, it begins a turn if it asks for one.
func (o *owner) post(m mailMsg) []action {
	if o.busy() {
		p := Posted{}
		if o.task == "" && !o.ends() {
			p.Turn = o.turn
		}
		m.reply <- p
		return nil
	}
	acts := o.called(m.reply)
	if acts == nil {
		m.reply <- Posted{}
	}
	return acts
}

// called begins the turn that mail asks for, if it does. reply is told of it; nil: nobody waits.
func (o *owner) called(reply chan Posted) []action {
	if o.asleep() || !o.mail.Call() {
		return nil
	}
	return []action{startTurn{submitMsg{Submission: Submission{byMail: true}, accepted: make(chan Accepted, 1), posted: reply, taken: true}}}
}
