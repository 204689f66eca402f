package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func TestPromptArguments(t *testing.T) {
	three := event.SourcePrompt{Arguments: []event.SourcePromptArgument{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	for rest, want := range map[string]string{
		"": "map[]", "x": "map[a:x]", " x  y ": "map[a:x b:y]", "x y z  and more ": "map[a:x b:y c:z  and more]",
	} {
		if got := fmt.Sprint(promptArguments(three, rest)); got != want {
			t.Errorf("%q: %s, want %s", rest, got, want)
		}
	}
	if got := promptArguments(event.SourcePrompt{}, "x"); len(got) != 0 {
		t.Errorf("without arguments: %v", got)
	}
}

func TestPromptInput(t *testing.T) {
	for raw, want := range map[string]string{
		`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`:                                                            "The prompt \"p\" of \"s\":\nhi",
		`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"text","text":"ok"}}]}`: "The prompt \"p\" of \"s\":\n\n[user]\nhi\n[assistant]\nok",
		`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"note://a","text":"inside"}}}]}`:                      "inside",
		`{"messages":[{"role":"user","content":{"type":"dance"}}]}`:                                                                       `error: the prompt "p" of "s": prompt[1].type`,
		`{"messages":5}`: `error: the prompt "p" of "s": json`,
	} {
		in, err := promptInput("s", "p", json.RawMessage(raw))
		got := textOf(in)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// Only a change of a source's prompts is news, and editors are offered a bounded number.
func TestOfferedPrompts(t *testing.T) {
	s := &session{}
	many := event.SourceChanged{Plugin: "mcp", Source: "b", Prompts: make([]event.SourcePrompt, 2*maxPromptCommands)}
	one := event.SourceChanged{Plugin: "mcp", Source: "a", Prompts: []event.SourcePrompt{{Name: "sum up", Title: "Sum"}}}
	for i, tc := range []struct {
		b    event.SourceChanged
		news bool
	}{
		{event.SourceChanged{Plugin: "mcp", Source: "a"}, false},
		{many, true}, {one, true}, {one, false}, {event.SourceChanged{Plugin: "mcp", Source: "a", State: "failed", Prompts: one.Prompts}, false},
	} {
		if got := s.offers(tc.b); got != tc.news {
			t.Errorf("%d: news %v", i, got)
		}
	}
	got := s.commands()
	if c := got[len(commands())]; len(got) != maxPromptCommands || c.Name != "a:sum-up" || c.Description != "Prompt of a: Sum" {
		t.Errorf("%d commands, the first one of a source is %+v", len(got), c)
	}
	if _, p, ok := s.promptOf("a:sum-up"); !ok || p.Name != "sum up" {
		t.Errorf("%+v", p)
	}
	one.Prompts = nil
	if !s.offers(one) {
		t.Error("the end of a source's prompts is no news")
	}
	if _, _, ok := s.promptOf("a:sum-up"); ok {
		t.Error("a prompt is still there")
	}
}
