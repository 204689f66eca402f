package messages

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Texts that stand where the vendor demands one.
const (
	goOnText     = "Continue."
	noOutputText = "(no tool output)"
)

// pauseTurn is why an answer ends that the vendor wants to go on with.
const pauseTurn = "pause_turn"

// Roles on the wire.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// turn is one message on the wire.
type turn struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// history makes turns of a request's messages: user and assistant alternate, whatever the messages do.
type history struct {
	*lowering
	thinking bool // in this request

	done []turn
	role string // of the turn that is being written; empty: none
	// results are the user's blocks that answer calls; rest is what else the turn says.
	results, rest []any
	thoughts      []any // wait for what they led to, since no answer ends in them
	notes         []any // of the host, for models that take them natively: wait for the end of the user's turn
	paused        bool  // the last answer is to be continued

	at      int            // the message that is being lowered
	marks   map[int]marker // by message: its last text, or else the last that can be marked
	ids     protocol.CallIDs
	hosted  hostedPairs
	resumes int // the messages from here on are what the vendor goes on with
}

// hostedPairs tells which hosted calls have a result somewhere: the vendor refuses one without the other.
type hostedPairs struct {
	answered, called, resulted map[string]bool
}

// history returns the turns. marks are the messages to be marked for the prompt cache.
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
		for ; i >= 0 && h.marks[i] == nil; i-- { // a message that says nothing hands its mark to the one before
		}
		if i >= 0 {
			l.mark(h.marks[i])
		}
	}
	return h.done, nil
}

// survey finds what can't be known on the way: which hosted calls are answered later, and where the last answer begins
// if nothing but results follows it.
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

// begin goes on with the turn of a role, or begins one.
func (h *history) begin(role string) {
	if role == roleUser {
		h.thoughts = nil // they led to nothing
	}
	if h.role == role {
		return
	}
	h.flush()
	h.role = role
}

// ask adds to what the user says, answer to what the model says.
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

// flush writes the turn down. Notes follow the user's.
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
		// Nothing of the user follows that the notes could stand behind.
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

// note is a word of the host in the middle of a history. Natively it may stand only between the user's turn and an
// answer; otherwise it is a text of the user. It never comes between a call and its result, since results go first.
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
		return // refused
	}
	b := &textBlock{Type: "text", Text: t.Text}
	if role == llm.RoleAssistant {
		b.Citations = h.citations(t)
		h.answer(b)
		return
	}
	h.ask(b)
}

// citations are those that the vendor wants back: places in results of its own search. Others point into documents that
// need not be there any more.
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
		h.Warning("media of an answer is left out: the format has a place for it on the user's side only")
		return nil
	}
	b, err := h.media(m)
	if err == nil {
		h.ask(b)
	}
	return err
}
