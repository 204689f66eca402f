package script_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// host is the smallest turn loop that a script can be played against: it samples, runs calls through a function, records
// results in the order asked, asks again after an error that allows it, and checks the order of all events.
type host struct {
	t        *testing.T
	player   *script.Player
	req      llm.Request
	pos      script.Position // what a provider process remembers
	tool     func(call *llm.ToolCall) (string, bool)
	requests int
	attempts int
	retries  int
	forget   bool // each request meets a new provider process
	strip    bool // the host loses all metadata
	split    bool // it keeps a message per block
	lax      bool // the order of events is wrong on purpose
	last     *llm.Error
	usage    []llm.Usage
}

func newHost(t *testing.T, p *script.Player) *host {
	return &host{t: t, player: p, retries: 5, req: llm.Request{
		Model:  "scripted",
		System: []string{"base"},
		Tools:  []llm.Tool{{Name: "exec_command"}, {Name: "apply_patch", Freeform: &llm.Freeform{Syntax: "lark"}}},
		Messages: []llm.Message{
			{Role: llm.RoleSystem, Parts: llm.Parts{&llm.Text{Text: "<permissions instructions>all</permissions instructions>"}}},
			{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: "<environment_context>\n  <cwd>/src</cwd>\n</environment_context>"}}},
		},
	}}
}

func (h *host) say(text string) {
	h.req.Messages = append(h.req.Messages, llm.Message{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: text}}})
}

// sample plays one request and returns the folded answer.
func (h *host) sample() (*llm.Fold, script.Action) {
	h.t.Helper()
	h.requests++
	known := h.pos
	if h.forget {
		known = script.Position{}
	}
	a, err := h.player.Play(script.Input{Request: &h.req, Thread: "t1", Turn: "u1", Known: known})
	fold := &llm.Fold{}
	if err != nil {
		e, ok := errors.AsType[*llm.Error](err)
		if !ok {
			h.t.Fatalf("Play: %T is no *llm.Error: %v", err, err)
		}
		fold.Add(e)
		return fold, nil
	}
	h.pos = a.Position
	var check llm.Checker
	for _, action := range a.Actions {
		switch action := action.(type) {
		case script.Emit:
			if err := check.Check(action.Event); err != nil && !h.lax {
				h.t.Fatalf("step %s: %v", a.Step, err)
			}
			if _, ok := action.Event.(llm.Attempt); ok {
				h.attempts++
			}
			fold.Add(action.Event)
		case script.Halt:
			return fold, action
		}
	}
	if err := check.Done(); err != nil && !h.lax {
		h.t.Fatalf("step %s: %v", a.Step, err)
	}
	return fold, nil
}

// turn runs until nothing is left to follow up and returns the text of the last message.
func (h *host) turn(prompt string) string {
	h.t.Helper()
	h.say(prompt)
	for tries := 0; ; {
		fold, _ := h.sample()
		h.last = fold.Err()
		kept := fold.Message()
		if h.last != nil {
			kept = fold.Ended()
		}
		if h.strip {
			kept = stripped(kept)
		}
		switch {
		case h.split:
			for _, p := range kept.Parts {
				h.req.Messages = append(h.req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: llm.Parts{p}})
			}
		case len(kept.Parts) > 0:
			h.req.Messages = append(h.req.Messages, *kept)
		}
		calls := fold.Calls()
		for _, c := range calls {
			out, ok := "unsupported call: "+c.Name, false
			if h.tool != nil {
				out, ok = h.tool(c)
			}
			h.req.Messages = append(h.req.Messages, llm.Message{Role: llm.RoleTool, Parts: llm.Parts{
				&llm.ToolResult{ID: c.ID, Name: c.Name, Content: llm.Parts{&llm.Text{Text: out}}, IsError: !ok},
			}})
		}
		switch {
		case h.last != nil && h.last.Retryable && tries < h.retries:
			tries++
		case h.last != nil:
			return ""
		default:
			tries = 0
			h.usage = append(h.usage, fold.End().Usage)
			if len(calls) == 0 && !fold.End().Again {
				return kept.Text()
			}
		}
		if h.requests > 100 {
			h.t.Fatalf("the turn does not end:\n%s", strings.Join(script.Lines(&h.req), "\n"))
		}
	}
}

func stripped(m *llm.Message) *llm.Message {
	m.Metadata = nil
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Text:
			p.Metadata = nil
		case *llm.Reasoning:
			p.Metadata = nil
		case *llm.ToolCall:
			p.Metadata = nil
		}
	}
	return m
}

// echo answers exec_command as if its echo and sleep had run.
func echo(c *llm.ToolCall) (string, bool) {
	if c.Name != "exec_command" {
		return "unsupported call: " + c.Name, false
	}
	_, text, _ := strings.Cut(c.Input, "echo ")
	text, _, _ = strings.Cut(text, `"`)
	return fmt.Sprintf("Process exited with code 0\nOutput:\n%s\n", text), true
}
