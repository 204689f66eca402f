package history

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// mailMarker is the element around mail of another agent.
const mailMarker = "agent_message"

// mailTypes are the types of mail as the model reads them; codex-compatible.
var mailTypes = map[event.MailType]string{event.MailTask: "NEW_TASK", event.MailMessage: "MESSAGE", event.MailAnswer: "FINAL_ANSWER"}

// MailMessage returns mail as the model reads it: four header lines and the text. It is plain text in a user message, which every
// vendor's models can read; the element distinguishes it from a person's words.
func MailMessage(m event.Mail) llm.Message {
	// Mail must not be able to close its element and continue as somebody else's words.
	said := strings.ReplaceAll(strings.ToValidUTF8(m.Text, "\uFFFD"), "</"+mailMarker, "<\\/"+mailMarker)
	text := fmt.Sprintf("<%s>\nMessage Type: %s\nTask name: %s\nSender: %s\nPayload:\n%s\n</%[1]s>", mailMarker, mailTypes[m.Type], m.Recipient, m.Author, said)
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}
}

// IsMail reports whether a message is mail of another agent.
func IsMail(m llm.Message) bool {
	text := m.Text()
	return m.Role == llm.RoleUser && len(m.Parts) == 1 && strings.HasPrefix(text, "<"+mailMarker+">\n") && strings.HasSuffix(text, "</"+mailMarker+">")
}
