package script_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// The manual is tested: its snippets load, and its lists of names are complete.
func TestManualIsTrue(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	snippets := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(snippets) < 3 {
		t.Fatalf("%d snippets", len(snippets))
	}
	for _, s := range snippets {
		if _, err := script.Load("manual", []byte(s[1])); err != nil {
			t.Errorf("%v\n%s", err, s[1])
		}
	}
	names := append(script.Malformations(), script.Breaks()...)
	for c := llm.ErrUnknown; c <= llm.ErrOverloaded; c++ {
		names = append(names, c.String())
	}
	for _, n := range names {
		if !strings.Contains(text, "`"+n+"`") {
			t.Errorf("the manual does not name %q", n)
		}
	}
}

func BenchmarkPlay(b *testing.B) {
	p := load(b, "load.toml")
	req := &llm.Request{Model: "scripted"}
	var pos script.Position
	for n := range 2000 {
		role := llm.RoleUser
		if n%2 == 1 {
			role = llm.RoleAssistant
		}
		req.Messages = append(req.Messages, llm.Message{Role: role, Parts: llm.Parts{&llm.Text{Text: "some words of a conversation that is long by now"}}})
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: "go on"}}})
	b.ReportAllocs()
	for b.Loop() {
		a, err := p.Play(script.Input{Request: req, Known: pos})
		if err != nil {
			b.Fatal(err)
		}
		pos = a.Position
	}
}
