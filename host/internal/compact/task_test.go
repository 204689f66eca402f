package compact_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/compact"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// The newest task of an agent is kept, however much mail has come after it, and before earlier tasks.
func TestTaskSurvives(t *testing.T) {
	letter := func(as event.MailType, text string) llm.Message {
		return history.MailMessage(event.Mail{Author: "/root", Recipient: "/root/a", Type: as, Text: text})
	}
	old := []llm.Message{letter(event.MailTask, "an earlier task"), letter(event.MailTask, "the task"+strings.Repeat(" and more", 200))}
	for range 12 {
		old = append(old, letter(event.MailMessage, strings.Repeat("mail ", 800)))
	}
	var text strings.Builder
	for _, m := range compact.Replace(old, nil, "the summary") {
		text.WriteString(m.Text())
	}
	if got := text.String(); strings.Count(got, "the task") != 1 || strings.Contains(got, "an earlier task") || !strings.Contains(got, "mail mail") {
		t.Errorf("kept: %.300s", got)
	}
	// It stands where it stood.
	kept := compact.Replace([]llm.Message{letter(event.MailTask, "first"), letter(event.MailMessage, "second")}, nil, "s")
	if len(kept) != 3 || !strings.Contains(kept[0].Text(), "first") || !strings.Contains(kept[1].Text(), "second") {
		t.Errorf("%d messages", len(kept))
	}
}
