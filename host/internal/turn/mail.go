package turn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxMail limits the mail that waits for one thread.
const maxMail = 512

// ErrMailboxFull is returned for mail that was not accepted.
var ErrMailboxFull = hint.New("the mailbox is full: 512 messages are waiting for the thread's next turn", "try again after it has read them")

// Mailbox holds the mail from other agents that a thread's agent has not read. It belongs to the thread; its turns read it. It is
// safe for concurrent use.
type Mailbox struct {
	signal *Signal // nil: none
	mu     struct {
		sync.Mutex
		mails []event.Mail
		// calls is the number of mails that ask for a turn and for which none has started.
		calls int
	}
}

// NewMailbox returns a mailbox with mail from before a restart. That mail does not start a turn by itself; the caller that resumes
// the thread does.
func NewMailbox(mails []event.Mail) *Mailbox {
	b := &Mailbox{}
	b.mu.mails = slices.Clone(mails)
	return b
}

// Full reports whether the mailbox accepts no more mail.
func (b *Mailbox) Full() bool { return b.len() >= maxMail }

// Pending reports whether mail waits.
func (b *Mailbox) Pending() bool { return b.len() > 0 }

func (b *Mailbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.mails)
}

// Add adds mail after all mail that waits.
func (b *Mailbox) Add(m event.Mail) {
	defer b.signal.ring() // after unlocking
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.mails = append(b.mu.mails, m)
	if m.TriggerTurn {
		b.mu.calls++
	}
}

// Call reports whether mail asks for a turn, and clears that: a turn that fails before it reads its mail is not started again and
// again. The mail stays for the next turn.
func (b *Mailbox) Call() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	called := b.mu.calls > 0
	b.mu.calls = 0
	return called
}

// Waiting returns the mail that waits, oldest first.
func (b *Mailbox) Waiting() []event.Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.mails)
}

// drop removes the first n mails, which have been read.
func (b *Mailbox) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.mails = slices.Clone(b.mu.mails[n:])
	if !slices.ContainsFunc(b.mu.mails, func(m event.Mail) bool { return m.TriggerTurn }) {
		b.mu.calls = 0
	}
}

// ParentOf returns the parent of a turn that mail started: the turn in which all mail that asked for it was written; empty if
// there is no single one.
func ParentOf(mails []event.Mail) event.TurnID {
	var parent event.TurnID
	first := true
	for _, m := range mails {
		if !m.TriggerTurn {
			continue
		}
		from := event.TurnID(strings.TrimSpace(string(m.AuthorTurn)))
		if !first && from != parent {
			return ""
		}
		parent, first = from, false
	}
	return parent
}

// MailItem returns the item that shows a mail.
func MailItem(m event.Mail) event.Item {
	return event.Item{ID: m.Item, Type: event.ItemMail, Status: event.StatusCompleted, Text: m.Text, Author: m.Author}
}

// readMail records the mail that waits, and reports whether there was any. Mail that the log does not accept stays in the mailbox.
func (r *runner) readMail(ctx context.Context) (bool, error) {
	mails := r.Mail.Waiting()
	switch {
	case len(mails) == 0:
		return false, nil
	case ctx.Err() != nil: // it is for the next turn
		return false, context.Cause(ctx)
	}
	var ms []llm.Message
	var bodies []event.Body
	for _, m := range mails {
		ms = append(ms, history.MailMessage(m))
		bodies = append(bodies, event.ItemCompleted{Item: MailItem(m)})
	}
	if err := r.write(ctx, append([]event.Body{event.HistoryAdded{Messages: ms}}, bodies...)...); err != nil {
		return false, err
	}
	r.uncommitted = r.last
	r.Mail.drop(len(mails))
	return true, nil
}

// errMail ends an answer after a thought or a remark, so that the model reads new mail before it continues.
var errMail = errors.New("the answer was cut off for mail")

// preemptForMail ends an answer at the next block after a thought or a remark if mail has arrived. An answer that contains final text
// is not ended: mail that arrives then waits for the next turn. Adjacent thoughts are kept together.
func (a *answer) preemptForMail(ev llm.Event) error {
	switch ev := ev.(type) {
	case llm.BlockStart:
		if ev.Kind == llm.BlockReasoning {
			return nil
		}
	case llm.ToolInputError, llm.ToolCallDone, llm.ToolResultDone:
	default:
		return nil
	}
	between := a.between
	a.between = false
	if between && !a.spoke && a.Mail.Pending() {
		return errMail
	}
	return nil
}

// mailContinues reports whether mail keeps the turn from ending after an answer. After a final text it does not.
func (r *runner) mailContinues(s sampled) bool { return !s.spoke && r.Mail.Pending() }
