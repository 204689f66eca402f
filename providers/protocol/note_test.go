package protocol

import (
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestNote(t *testing.T) {
	m := llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: "a"}, &llm.Media{}, &llm.Text{Text: "b"}}}
	if got := Note(m); got != "a\nb" {
		t.Errorf("note %q", got)
	}
}
