package event

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
)

// MailType is the purpose of a mail.
type MailType string

// Types of mail.
const (
	MailTask    MailType = "new_task"     // what the agent is to do
	MailMessage MailType = "message"      // anything else
	MailAnswer  MailType = "final_answer" // what came of a task
)

// Mail is a message from one agent to another. It stays in the mailbox of the recipient's thread until a turn reads it.
type Mail struct {
	Item      ItemID   `json:"item"` // ID of the future item
	Author    string   `json:"author"`
	Recipient string   `json:"recipient"`
	Type      MailType `json:"type"`
	Text      string   `json:"text"`
	// TriggerTurn starts a turn if none is running. Otherwise the mail waits for the next turn.
	TriggerTurn bool `json:"triggerTurn,omitempty"`
	// AuthorTurn is the turn in which it was written; empty: unknown.
	AuthorTurn TurnID `json:"authorTurn,omitempty"`
}

// Limits of a mail. The model sees the names on a line of their own before the text, and the whole text.
const (
	maxMailName = 256
	maxMailText = 64 << 10
)

// Check returns an error if the mail is invalid.
func (m Mail) Check() error {
	for _, n := range []struct{ what, name string }{{"author", m.Author}, {"recipient", m.Recipient}} {
		if !agentName(n.name) {
			return hint.With(fmt.Errorf("invalid %s %.80q: not the name of an agent", n.what, n.name),
				fmt.Sprintf("use up to %d letters, digits, dashes and underscores, separated by slashes, such as /root/helper", maxMailName))
		}
	}
	switch {
	case !slices.Contains([]MailType{MailTask, MailMessage, MailAnswer}, m.Type):
		return hint.With(fmt.Errorf("invalid type %.80q", m.Type), fmt.Sprintf("one of %q, %q and %q", MailTask, MailMessage, MailAnswer))
	case strings.TrimSpace(m.Text) == "" && m.Type != MailAnswer:
		return errors.New("mail must not be empty")
	case len(m.Text) > maxMailText:
		return hint.With(fmt.Errorf("mail is too long: %d bytes", len(m.Text)), fmt.Sprintf("use at most %d bytes, and refer to a file for the rest", maxMailText))
	}
	return nil
}

// agentName reports whether s is the path or the ID of an agent.
func agentName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if len(s) > maxMailName {
		return false
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
		if step == "" || strings.Trim(step, letters) != "" {
			return false
		}
	}
	return true
}

// MailPosted says that a mail is in the thread's mailbox, which its author has been told. It is not in the history yet; the item with
// the same ID is published when it is. A crash in between loses nothing.
type MailPosted struct {
	Mail Mail `json:"mail"`
}

func (MailPosted) Kind() string  { return "mail.posted" }
func (MailPosted) durable() bool { return true }
