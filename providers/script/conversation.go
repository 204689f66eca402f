package script

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// conversation provides the contents of a request for conditions and captures. It is not safe for concurrent use.
type conversation struct {
	req *llm.Request

	user      string   // the last user message, without the host's notes
	outputs   []string // results since the last response, in order
	answers   int
	sinceUser int // responses after the last user message

	names map[string]string // call ID → tool; created on first use
}

// look scans a request once. Its cost is linear in the length of the conversation, because long threads are played too.
func look(req *llm.Request) *conversation {
	c := &conversation{req: req}
	user, noted, end := -1, -1, 0
	for i := range req.Messages {
		switch m := &req.Messages[i]; m.Role {
		case llm.RoleAssistant:
			if beginsAnswer(req.Messages, i) {
				c.answers++
				c.sinceUser++
			}
			end = i + 1
		case llm.RoleUser:
			if contextual(m) {
				noted = i
				continue
			}
			user, c.sinceUser = i, 0
		}
	}
	if user < 0 {
		user = noted
	}
	if user >= 0 {
		c.user = req.Messages[user].Text()
	}
	for _, m := range req.Messages[end:] {
		for _, p := range m.Parts {
			if r, ok := p.(*llm.ToolResult); ok {
				c.outputs = append(c.outputs, outputOf(r))
			}
		}
	}
	return c
}

// beginsAnswer reports whether the assistant message i is the first of a response. A host may store a response as one message or
// as one per block. So consecutive messages are one response, until one contains a position, which is in the first block of each
// response.
func beginsAnswer(messages []llm.Message, i int) bool {
	if i == 0 || messages[i-1].Role != llm.RoleAssistant {
		return true
	}
	_, ok := carried(&messages[i])
	return ok
}

func outputOf(r *llm.ToolResult) string {
	var s strings.Builder
	for _, p := range r.Content {
		if t, ok := p.(*llm.Text); ok {
			s.WriteString(t.Text)
		}
	}
	return s.String()
}

// nameOf returns the tool of a result: from the result itself, or from its call.
func (c *conversation) nameOf(r *llm.ToolResult) string {
	if r.Name != "" {
		return r.Name
	}
	if c.names == nil {
		c.names = map[string]string{}
		for _, m := range c.req.Messages {
			for _, p := range m.Parts {
				if call, ok := p.(*llm.ToolCall); ok {
					c.names[call.ID] = call.Name
				}
			}
		}
	}
	return c.names[r.ID]
}

// latest returns the last result of a call, given the call's ID or its tool's name.
func (c *conversation) latest(call string) (string, bool) {
	for i := len(c.req.Messages) - 1; i >= 0; i-- {
		parts := c.req.Messages[i].Parts
		for j := len(parts) - 1; j >= 0; j-- {
			if r, ok := parts[j].(*llm.ToolResult); ok && (r.ID == call || c.nameOf(r) == call) {
				return outputOf(r), true
			}
		}
	}
	return "", false
}

func (c *conversation) outputText() string { return strings.Join(c.outputs, "\n") }

func (c *conversation) system() string { return strings.Join(c.req.System, "\n\n") }

func (c *conversation) offers(tool string) bool {
	for _, t := range c.req.Tools {
		if t.Name == tool || t.Namespace != "" && t.Namespace+"."+t.Name == tool {
			return true
		}
	}
	return false
}

func (c *conversation) tools() []string {
	names := make([]string, len(c.req.Tools))
	for i, t := range c.req.Tools {
		names[i] = t.Name
		if t.Namespace != "" {
			names[i] = t.Namespace + "." + t.Name
		}
	}
	return names
}

// markers are the beginnings of notes that a host adds to the history as user messages.
var markers = []string{
	"<environment_context>", "# agents.md instructions", "<turn_aborted>", "<user_shell_command>",
	"<subagent_notification>", "<skill>", "<hook_prompt", "<recommended_plugins>", "<system-update>",
}

func contextual(m *llm.Message) bool {
	for _, p := range m.Parts {
		t, ok := p.(*llm.Text)
		if !ok {
			continue
		}
		head := strings.TrimSpace(t.Text)
		for _, marker := range markers {
			if len(head) >= len(marker) && strings.EqualFold(head[:len(marker)], marker) {
				return true
			}
		}
	}
	return false
}

// Shape describes a conversation as a sequence of letters: D note of the host, X contextual user message, U user, A assistant
// text, R reasoning, C:id call, O:id result, M media.
func Shape(req *llm.Request) string {
	var out []string
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case llm.RoleSystem:
			out = append(out, "D")
			continue
		case llm.RoleUser:
			if contextual(m) {
				out = append(out, "X")
			} else {
				out = append(out, "U")
			}
			continue
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				out = append(out, "A")
			case *llm.Reasoning:
				out = append(out, "R")
			case *llm.Media:
				out = append(out, "M")
			case *llm.ToolCall:
				out = append(out, "C:"+p.ID)
			case *llm.ToolResult:
				out = append(out, "O:"+p.ID)
			}
		}
	}
	return strings.Join(out, " ")
}

// Lines returns what a model sees, one line per part, for assertions and error messages.
func Lines(req *llm.Request) []string {
	out := make([]string, 0, len(req.System)+len(req.Messages))
	for _, s := range req.System {
		out = append(out, "base: "+oneLine(s))
	}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			out = append(out, line(m.Role, p))
		}
	}
	return out
}

func line(role llm.Role, p llm.Part) string {
	switch p := p.(type) {
	case *llm.Text:
		return role.String() + ": " + oneLine(p.Text)
	case *llm.Reasoning:
		return "reasoning: " + oneLine(p.Text)
	case *llm.Media:
		return fmt.Sprintf("%s media: %s, %d bytes", role, p.MediaType, len(p.Data))
	case *llm.ToolCall:
		name := p.Name
		if p.Namespace != "" {
			name = p.Namespace + "." + name
		}
		return fmt.Sprintf("call %s %s: %s", p.ID, name, oneLine(p.Input))
	case *llm.ToolResult:
		mark := ""
		if p.IsError {
			mark = " (error)"
		}
		var texts []string
		for _, part := range p.Content {
			switch part := part.(type) {
			case *llm.Text:
				texts = append(texts, oneLine(part.Text))
			case *llm.Media:
				texts = append(texts, fmt.Sprintf("[%s, %d bytes]", part.MediaType, len(part.Data)))
			case *llm.Sealed:
				texts = append(texts, fmt.Sprintf("[encrypted for %s, %d bytes]", part.Namespace, len(part.Data)))
			}
		}
		return fmt.Sprintf("output %s%s: %s", p.ID, mark, strings.Join(texts, " "))
	}
	return role.String() + ": unknown part"
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "⏎") }

// text returns the whole conversation in the form of [Lines], but with real line breaks within texts.
func (c *conversation) text() string {
	return strings.ReplaceAll(strings.Join(Lines(c.req), "\n"), "⏎", "\n")
}
