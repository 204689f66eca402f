package event

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
)

// MailType says what some mail is for.
type MailType string

// The types of mail.
const (
	MailTask    MailType = "new_task"     // what the agent is to do
	MailMessage MailType = "message"      // anything else
	MailAnswer  MailType = "final_answer" // what came of a task
)

// Mail is what one agent says to another. It waits in the mailbox of the other one's thread until a turn reads it.
type Mail struct {
	Item      ItemID   `json:"item"` // that it becomes
	Author    string   `json:"author"`
	Recipient string   `json:"recipient"`
	Type      MailType `json:"type"`
	Text      string   `json:"text"`
	// TriggerTurn: it begins a turn where none runs. Else it waits for the next one.
	TriggerTurn bool `json:"triggerTurn,omitempty"`
	// AuthorTurn is the turn in which it was written; empty: nobody says.
	AuthorTurn TurnID `json:"authorTurn,omitempty"`
}

// Bounds of mail. Names stand in a line of their own before the text; a text is read whole.
const (
	maxMailName = 256
	maxMailText = 64 << 10
)

// Check says what is wrong with some mail; nil: nothing.
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

// agentName tells that a name is a path of an agent, or an id.
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

// MailPosted: mail is in the thread's mailbox, and its author was told so. It is not in the history yet; the item of the same
// number says when it is. A host that dies in between loses nothing.
type MailPosted struct {
	Mail Mail `json:"mail"`
}

func (MailPosted) Kind() string  { return "mail.posted" }
func (MailPosted) durable() bool { return true }
