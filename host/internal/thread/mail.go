package thread

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// Posted says what happened to mail.
type Posted struct {
	Item event.ItemID // item that the mail becomes when it is read
	// Turn is the running turn, which reads the mail unless it has already given its final answer, or the turn that the mail
	// started. It is empty if the mail waits for the next turn.
	Turn event.TurnID
	// Began: the mail started the turn.
	Began bool
}

// Post puts mail of another agent into the thread's mailbox. A running turn reads it before its next request, and is interrupted
// for it after a thought or a remark; after its final answer it is not, and the mail waits for the next turn. If no turn runs,
// mail that triggers a turn starts one and other mail waits. If the thread is about to end, all mail waits. When Post returns
// without an error, the mail survives a restart of the host. With an error, it was not accepted.
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
	// The mail is accepted now, whether or not the caller still waits.
	if err := t.bus.Barrier(context.WithoutCancel(ctx), seq); err != nil { // the store limits how long that can take
		t.cfg.Logger.Warn("mail is not stored yet", "thread", t.cfg.ID, "err", err)
	}
	crashpoint.At(crashpoint.InputDurable, "")
	call := mailMsg{make(chan Posted, 1)}
	p := Posted{Item: m.Item}
	select {
	case t.mailed <- call:
		p = <-call.reply
		p.Item = m.Item
	case <-t.done: // it is read when the thread is resumed
	}
	return p, nil
}

// post adds mail to the log and the mailbox in the same order: the log must have it before it says that it was read.
func (t *Thread) post(ctx context.Context, m *event.Mail) (uint64, error) {
	if err := t.Opened(ctx); err != nil {
		return 0, err
	}
	select {
	case t.posting <- struct{}{}:
		defer func() { <-t.posting }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if t.mail.Full() && m.Type != event.MailAnswer { // there is one for each turn that an agent was given
		return 0, turn.ErrMailboxFull
	}
	if m.Item == "" {
		m.Item = event.NewItemID()
	}
	seq, err := t.bus.Publish(ctx, "", event.MailPosted{Mail: *m})
	if err != nil {
		return 0, err
	}
	t.mail.Add(*m)
	return seq, nil
}

// mailMsg tells the owner that mail has arrived.
type mailMsg struct{ reply chan Posted } // one slot

// post decides what mail does: if nothing runs and it asks for a turn, it starts one.
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

// called starts the turn that mail asks for, if there is any. reply receives the result; nil: no caller waits.
func (o *owner) called(reply chan Posted) []action {
	if o.asleep() || !o.mail.Call() {
		return nil
	}
	return []action{startTurn{submitMsg{Submission: Submission{byMail: true}, accepted: make(chan Accepted, 1), posted: reply, taken: true}}}
}
