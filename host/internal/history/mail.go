package history

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// mailMarker is the element that mail of another agent stands in.
const mailMarker = "agent_message"

// mailTypes are how a type of mail is written to the model; codex-compatible.
var mailTypes = map[event.MailType]string{event.MailTask: "NEW_TASK", event.MailMessage: "MESSAGE", event.MailAnswer: "FINAL_ANSWER"}

// MailMessage is mail as the model reads it: four lines that say what it is, and the text. It is plain text in a user's message, which
// every vendor's models can read; the element tells it from what a person says.
func MailMessage(m event.Mail) llm.Message {
	// What another agent writes must not seem to end where it does not, and to go on as somebody else's words.
	said := strings.ReplaceAll(strings.ToValidUTF8(m.Text, "\uFFFD"), "</"+mailMarker, "<\\/"+mailMarker)
	text := fmt.Sprintf("<%s>\nMessage Type: %s\nTask name: %s\nSender: %s\nPayload:\n%s\n</%[1]s>", mailMarker, mailTypes[m.Type], m.Recipient, m.Author, said)
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}
}

// IsMail tells that a message is mail of another agent.
func IsMail(m llm.Message) bool {
	text := m.Text()
	return m.Role == llm.RoleUser && len(m.Parts) == 1 && strings.HasPrefix(text, "<"+mailMarker+">\n") && strings.HasSuffix(text, "</"+mailMarker+">")
}
