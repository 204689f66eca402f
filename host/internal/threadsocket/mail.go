package threadsocket

import (
	"cmp"
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
)

const methodMail = prefix + "mail"

// MailParams are a message of another agent to the thread's agent.
type MailParams struct {
	OfThread
	Author    string         `json:"author"`              // a path or an id: letters, digits, dashes, underscores and slashes
	Recipient string         `json:"recipient,omitempty"` // default: "/root"
	Type      event.MailType `json:"type,omitempty"`      // default: "message"
	Text      string         `json:"text"`                // at most 64 KiB
	// TriggerTurn starts a turn if none is running. Otherwise the mail waits for the next one.
	TriggerTurn bool `json:"triggerTurn,omitempty"`
	// ParentTurn is the turn in which the mail was written.
	ParentTurn event.TurnID `json:"parentTurnId,omitempty"`
}

// MailResult is the result of accepting mail, which is stored.
type MailResult struct {
	Item event.ItemID `json:"item"` // the item of the mail when the agent reads it
	// Turn is the running turn that reads the mail unless it ends first, or the turn that the mail started; empty: it waits for
	// the next turn.
	Turn  event.TurnID `json:"turn,omitempty"`
	Began bool         `json:"began,omitempty"`
}

func (t *served) mail(ctx context.Context, p MailParams) (MailResult, error) {
	posted, err := t.Post(ctx, event.Mail{
		Author: p.Author, Recipient: cmp.Or(p.Recipient, "/root"), Type: cmp.Or(p.Type, event.MailMessage), Text: p.Text,
		TriggerTurn: p.TriggerTurn, AuthorTurn: p.ParentTurn,
	})
	return MailResult{Item: posted.Item, Turn: posted.Turn, Began: posted.Began}, err
}

// Mail sends a message of another agent. If it returns an error, the message was not accepted.
func (c *Client) Mail(ctx context.Context, p MailParams) (r MailResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodMail, p, &r)
	return r, err
}
