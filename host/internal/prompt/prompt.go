// Package prompt writes what the model is told beside what users say: base instructions, and its context section by section.
//
// It owns: the form of a section, which sections must be restated because they changed, and the sections that every thread has.
// It must not know: how a request is sent, which provider or tools there are, which further sections features supply.
//
// Start with [Section] and [Update]; [Base] is the text that opens a request.
package prompt

import (
	_ "embed"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

//go:embed base.md
var base string

// Base returns the default base instructions, which open every request of a thread. A thread's instructions never change.
func Base() string { return base }

// Section is one subject of the model's context. It is sent when it is new and when it changes; earlier messages are never
// rewritten, so that the prefix of the conversation stays the same.
type Section struct {
	// ID is the key of the section in the stored reference: it never changes, and no two sections of a thread share it.
	ID string
	// Role of the message: RoleSystem for what the host says, RoleUser for what others say.
	Role llm.Role
	// Text is what the model reads. Empty: there is no such section now.
	Text string
	// Restated takes the place of Text for a model that knows an earlier text of the section; empty: Text does.
	Restated string
	// Gone tells a model that knows the section that it no longer exists; empty: the model is not told.
	Gone string

	// Digest identifies the content, where that is not the text; empty: the text's own digest.
	Digest string
	// Known is the digest of the content that a model knows without having been told; empty: there is none.
	Known string
	// Frame surrounds the section. Neighbours with the same frame share one.
	Frame *Frame
	// Apart begins a message of its own, also after a section of the same role.
	Apart bool
}

// Frame is text around sections that belong together.
type Frame struct{ Open, Close string }

// Update returns the messages that tell the model what has changed in its context since last, and what it knows after them. If
// last is nil, the model knows nothing. Sections keep their order. Each is a part of a message; adjacent sections of one role
// share a message. Sections that are only in last are forgotten.
func Update(last *event.Reference, sections []Section) ([]llm.Message, event.Reference) {
	var out []llm.Message
	var now event.Reference
	var frame *Frame // of the last part
	fresh := true    // the next text starts a message
	for _, s := range sections {
		fresh = fresh || s.Apart
		is := s.Digest
		if is == "" {
			is = event.Digest(s.Text)
		}
		var was string
		var knows bool
		if last != nil {
			was, knows = last.Sections[s.ID]
		} else {
			was, knows = s.Known, s.Known != ""
		}
		text := s.Text
		switch {
		case s.Text == "" && !knows:
			continue
		case s.Text == "":
			text = s.Gone
		default:
			if now.Sections == nil {
				now.Sections = make(map[string]string, len(sections))
			}
			now.Sections[s.ID] = is
			if knows && was == is {
				continue
			}
			if knows && s.Restated != "" {
				text = s.Restated
			}
		}
		if text == "" {
			continue
		}
		if fresh || len(out) == 0 || out[len(out)-1].Role != s.Role {
			out = append(out, llm.Message{Role: s.Role})
			frame = nil
		}
		fresh = false
		m := &out[len(out)-1]
		switch {
		case s.Frame != nil && frame == s.Frame:
			part := m.Parts[len(m.Parts)-1].(*llm.Text)
			part.Text = part.Text[:len(part.Text)-len(frame.Close)] + text + frame.Close
		case s.Frame != nil:
			m.Parts = append(m.Parts, &llm.Text{Text: s.Frame.Open + text + s.Frame.Close})
		default:
			m.Parts = append(m.Parts, &llm.Text{Text: text})
		}
		frame = s.Frame
	}
	return out, now
}
