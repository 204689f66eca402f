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

// maxMail is how much mail waits for one thread. Who writes more than that is not read anyway.
const maxMail = 512

// ErrMailboxFull says that mail was not taken.
var ErrMailboxFull = hint.New("the mailbox is full: 512 messages are waiting for the thread's next turn", "try again after it has read them")

// Mailbox is what other agents said to a thread's agent and it has not read yet. It is the thread's; its turns read it. Safe for
// concurrent use.
type Mailbox struct {
	signal *Signal // nil: none
	mu     struct {
		sync.Mutex
		mails []event.Mail
		// calls is how much of it wants a turn that nobody has begun for it.
		calls int
	}
}

// NewMailbox starts with mail that waited before. It calls for no turn by itself: whoever goes on with the thread begins one.
func NewMailbox(mails []event.Mail) *Mailbox {
	b := &Mailbox{}
	b.mu.mails = slices.Clone(mails)
	return b
}

// Full reports whether nothing more is taken.
func (b *Mailbox) Full() bool { return b.len() >= maxMail }

// Pending reports whether something waits.
func (b *Mailbox) Pending() bool { return b.len() > 0 }

func (b *Mailbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.mails)
}

// Add puts mail into the box. Its place is behind all that waits.
func (b *Mailbox) Add(m event.Mail) {
	defer b.signal.ring() // without the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.mails = append(b.mu.mails, m)
	if m.TriggerTurn {
		b.mu.calls++
	}
}

// Call reports whether mail wants a turn, and takes that for heard: a turn that fails before it reads its mail is not begun over
// and over. The mail stays for the next one.
func (b *Mailbox) Call() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	called := b.mu.calls > 0
	b.mu.calls = 0
	return called
}

// Waiting is what waits, oldest first.
func (b *Mailbox) Waiting() []event.Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.mails)
}

// drop takes out the first n, which have been read.
func (b *Mailbox) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.mails = slices.Clone(b.mu.mails[n:])
	if !slices.ContainsFunc(b.mu.mails, func(m event.Mail) bool { return m.TriggerTurn }) {
		b.mu.calls = 0
	}
}

// ParentOf is the turn that a turn begun by mail goes back to: the one in which all the mail that asked for it was written; empty
// where it was not one.
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

// MailItem shows some mail.
func MailItem(m event.Mail) event.Item {
	return event.Item{ID: m.Item, Type: event.ItemMail, Status: event.StatusCompleted, Text: m.Text, Author: m.Author}
}

// readMail records what waits in the mailbox, and tells whether there was anything. What the log does not take stays in the box.
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

// errMail cuts an answer off behind a thought or a remark: what another agent says is read before the model goes on.
var errMail = errors.New("the answer was cut off for mail")

// cutForMail ends an answer at the next thing that it begins after a thought or a remark, if mail has come. Who has spoken his
// answer is not cut off: what comes then waits for the next turn. Thoughts that belong together are not torn apart.
func (a *answer) cutForMail(ev llm.Event) error {
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

// mailHolds reports whether mail keeps a turn from ending behind an answer of the model's. After its last word it does not.
func (r *runner) mailHolds(s sampled) bool { return !s.spoke && r.Mail.Pending() }
