package appserver

import (
	"cmp"
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
)

const methodMail = "thread/mail/post"

// MailParams hand over what another agent says to the thread's agent.
type MailParams struct {
	Author    string         `json:"author"`              // a path or an id: letters, digits, dashes, underscores and slashes
	Recipient string         `json:"recipient,omitempty"` // "/root" where it is empty
	Type      event.MailType `json:"type,omitempty"`      // "message" where it is empty
	Text      string         `json:"text"`                // at most 64 KiB
	// TriggerTurn begins a turn where none runs. Else the mail waits for the next one.
	TriggerTurn bool `json:"triggerTurn,omitempty"`
	// ParentTurn is the turn in which it was written.
	ParentTurn event.TurnID `json:"parentTurnId,omitempty"`
}

// MailResult says what became of it. It outlives the host.
type MailResult struct {
	Item event.ItemID `json:"item"` // that it becomes when the agent reads it
	// Turn runs and reads it, if it has not said its last word by then, or was begun by it; empty: it waits for the next turn.
	Turn  event.TurnID `json:"turn,omitempty"`
	Began bool         `json:"began,omitempty"`
}

func (s *session) mail(ctx context.Context, p MailParams) (MailResult, error) {
	posted, err := s.thread.Post(ctx, event.Mail{
		Author: p.Author, Recipient: cmp.Or(p.Recipient, "/root"), Type: cmp.Or(p.Type, event.MailMessage), Text: p.Text,
		TriggerTurn: p.TriggerTurn, AuthorTurn: p.ParentTurn,
	})
	return MailResult{Item: posted.Item, Turn: posted.Turn, Began: posted.Began}, err
}

// Mail hands over what another agent says. With an error nothing was taken.
func (c *Client) Mail(ctx context.Context, p MailParams) (r MailResult, err error) {
	err = c.call(ctx, methodMail, p, &r)
	return r, err
}
