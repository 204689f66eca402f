package messages

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Texts where the vendor requires one.
const (
	goOnText     = "Continue."
	noOutputText = "(no tool output)"
)

// pauseTurn is the stop reason of a response that the vendor will continue.
const pauseTurn = "pause_turn"

// Roles on the wire.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// turn is a message on the wire.
type turn struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// history converts a request's messages to alternating user and assistant turns.
type history struct {
	*lowering
	thinking bool // enabled in this request

	done []turn
	role string // of the current turn; empty: none
	// results are the user's blocks that answer calls; rest are the turn's other blocks.
	results, rest []any
	thoughts      []any // wait for the block that follows them, because a response must not end with them
	notes         []any // of the host, for models that support them natively: wait for the end of the user's turn
	paused        bool  // the last response will be continued

	at      int            // index of the current message
	marks   map[int]marker // by message: its last text, otherwise its last block that can be marked
	ids     protocol.CallIDs
	hosted  hostedPairs
	resumes int // index of the messages that the vendor continues from
}

// hostedPairs records which hosted calls have a result: the vendor rejects either without the other.
type hostedPairs struct {
	answered, called, resulted map[string]bool
}

// history returns the turns. marks are the indices of messages to mark for the prompt cache.
func (l *lowering) history(marks []int, thinking bool) ([]turn, error) {
	h := &history{
		lowering: l, thinking: thinking, marks: map[int]marker{},
		hosted: hostedPairs{map[string]bool{}, map[string]bool{}, map[string]bool{}},
	}
	h.survey()
	for i := range l.Messages {
		h.at = i
		if err := h.message(&l.Messages[i]); err != nil {
			return nil, err
		}
	}
	h.end()
	for _, i := range marks {
		for ; i >= 0 && h.marks[i] == nil; i-- { // if a message has no content, the preceding one is marked
		}
		if i >= 0 {
			l.mark(h.marks[i])
		}
	}
	return h.done, nil
}

// survey determines in advance which hosted calls are answered later, and where the last response begins if only results follow
// it.
func (h *history) survey() {
	answering := false
	h.resumes = len(h.Messages)
	for i, m := range h.Messages {
		switch m.Role {
		case llm.RoleAssistant:
			if !answering {
				h.resumes = i
			}
			answering = true
		case llm.RoleTool:
			answering = false
		case llm.RoleUser:
			answering = false
			h.resumes = len(h.Messages)
		}
		for _, p := range m.Parts {
			if r, ok := p.(*llm.ToolResult); ok && r.ProviderExecuted {
				if _, ok := h.hostedMeta(r.Metadata); ok {
					h.hosted.answered[r.ID] = true
				}
			}
		}
	}
}

func (h *history) message(m *llm.Message) error {
	if m.Role == llm.RoleSystem {
		h.note(textOf(m.Parts, "\n"))
		return nil
	}
	for _, p := range m.Parts {
		var err error
		switch p := p.(type) {
		case *llm.Text:
			h.text(m.Role, p)
		case *llm.Media:
			err = h.mediaPart(m.Role, p)
		case *llm.Reasoning:
			if b := h.thought(p); b != nil {
				h.thoughts = append(h.thoughts, b)
			}
		case *llm.ToolCall:
			h.call(p)
		case *llm.ToolResult:
			err = h.result(p)
		}
		if err != nil {
			return err
		}
	}
	if m.Role == llm.RoleAssistant {
		var end struct {
			StopReason string `json:"stopReason"`
		}
		protocol.MetaOf(m.Metadata, h.Namespace, &end)
		h.paused = end.StopReason == pauseTurn
	}
	return nil
}

// begin continues the turn of a role, or starts one.
func (h *history) begin(role string) {
	if role == roleUser {
		h.thoughts = nil // nothing follows them
	}
	if h.role == role {
		return
	}
	h.flush()
	h.role = role
}

// ask adds a block to the user's turn, answer to the model's.
func (h *history) ask(b any) {
	h.begin(roleUser)
	h.rest = append(h.rest, b)
	h.remember(b)
}

func (h *history) answer(b any) {
	h.begin(roleAssistant)
	if len(h.rest) == 0 && len(h.thoughts) == 0 && h.thinking && h.Model.Compat.RequireReasoning {
		h.thoughts = []any{thinkingBlock{Type: "thinking"}}
	}
	h.rest = append(append(h.rest, h.thoughts...), b)
	h.thoughts = nil
	h.remember(b)
}

func (h *history) remember(b any) {
	m, ok := b.(marker)
	if !ok {
		return
	}
	_, isText := b.(*textBlock)
	_, hasText := h.marks[h.at].(*textBlock)
	if isText || !hasText {
		h.marks[h.at] = m
	}
}

// flush appends the current turn. Notes follow the user's turn.
func (h *history) flush() {
	content := append(h.results, h.rest...)
	h.results, h.rest = nil, nil
	if len(content) == 0 {
		return
	}
	if len(h.done) == 0 && h.role == roleAssistant {
		h.done = append(h.done, turn{roleUser, []any{&textBlock{Type: "text", Text: goOnText}}})
	}
	h.done = append(h.done, turn{h.role, content})
	if h.role == roleUser && len(h.notes) > 0 {
		h.done = append(h.done, turn{roleSystem, h.notes})
		h.notes = nil
	}
}

func (h *history) end() {
	if h.role != roleUser {
		// No user content follows that could precede the notes.
		for _, n := range h.notes {
			t := n.(*textBlock)
			t.Text = protocol.SystemUpdate(t.Text)
			h.ask(t)
		}
		h.notes = nil
	}
	if h.role == roleAssistant {
		if _, ok := h.rest[len(h.rest)-1].(hostedBlock); !ok && !h.paused {
			h.begin(roleUser)
			h.rest = append(h.rest, &textBlock{Type: "text", Text: goOnText})
		}
	}
	h.flush()
}

// note adds a note of the host within the history. Natively it must be between the user's turn and a response; otherwise it is a
// text of the user. It never separates a call from its result, because results come first.
func (h *history) note(text string) {
	if text == "" {
		return
	}
	if !h.Model.Compat.SystemUpdates {
		h.ask(&textBlock{Type: "text", Text: protocol.SystemUpdate(text)})
		return
	}
	t := &textBlock{Type: "text", Text: text}
	h.notes = append(h.notes, t)
	h.remember(t)
}

type textBlock struct {
	Type      string            `json:"type"`
	Text      string            `json:"text"`
	Citations []json.RawMessage `json:"citations,omitempty"`
	cached
}

func (h *history) text(role llm.Role, t *llm.Text) {
	if strings.TrimSpace(t.Text) == "" {
		return // would be rejected
	}
	b := &textBlock{Type: "text", Text: t.Text}
	if role == llm.RoleAssistant {
		b.Citations = h.citations(t)
		h.answer(b)
		return
	}
	h.ask(b)
}

// citations returns the citations that the vendor requires back: positions in results of its own search. Others refer to documents
// that may no longer exist.
func (h *history) citations(t *llm.Text) []json.RawMessage {
	var m struct {
		Citations []json.RawMessage `json:"citations"`
	}
	protocol.MetaOf(t.Metadata, h.Namespace, &m)
	var out []json.RawMessage
	for _, c := range m.Citations {
		var head struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(c, &head) == nil && head.Type == "web_search_result_location" {
			out = append(out, c)
		}
	}
	return out
}

func (h *history) mediaPart(role llm.Role, m *llm.Media) error {
	if role == llm.RoleAssistant {
		h.Warning("media in a response are omitted: the format only supports them in user messages")
		return nil
	}
	b, err := h.media(m)
	if err == nil {
		h.ask(b)
	}
	return err
}
