package responses

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type roleItem struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type messageItem struct {
	Type    string       `json:"type"`
	ID      string       `json:"id,omitempty"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
	Phase   string       `json:"phase,omitempty"`
}

type outputText struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations"`
}

type reasoningItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id,omitempty"`
	Summary          []reasoningText `json:"summary"`
	Content          []reasoningText `json:"content,omitempty"`
	EncryptedContent string          `json:"encrypted_content,omitempty"`
}

type reasoningText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type compactionItem struct {
	Type             string `json:"type"`
	ID               string `json:"id,omitempty"`
	EncryptedContent string `json:"encrypted_content"`
}

type callItem struct {
	Type      string  `json:"type"`
	ID        string  `json:"id,omitempty"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Namespace string  `json:"namespace,omitempty"`
	Arguments *string `json:"arguments,omitempty"` // of a function
	Input     *string `json:"input,omitempty"`     // of a grammar tool
}

type outputItem struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"`
}

// itemMeta is the metadata that the decoder stores with a part and that is sent back.
type itemMeta struct {
	ItemID      string            `json:"itemId"`
	Phase       string            `json:"phase"`
	Annotations []json.RawMessage `json:"annotations"`

	Content    bool   `json:"content"` // the reasoning itself rather than a summary
	Encrypted  string `json:"reasoningEncryptedContent"`
	Compaction string `json:"compaction"` // the vendor's own summary of the preceding history

	Item json.RawMessage `json:"item"` // of a tool that the vendor ran
}

// lowering converts a history to input items.
type lowering struct {
	r        *protocol.Request
	stored   bool // the vendor stores responses, so that IDs are sufficient
	items    []any
	custom   map[string]bool                   // by ID: whether the call was sent in the form of a grammar tool
	searches map[string]bool                   // by ID: tool searches that were sent in their own form
	hosted   map[*llm.ToolCall]*llm.ToolResult // calls of the vendor's own tools that have a result
	told     map[*llm.ToolResult]bool          // results that were sent with their call
	thought  *thought
	text     textRun
	// orphaned is set if the preceding reasoning could not be sent. The vendor rejects items with an ID whose reasoning is
	// missing, so the following items are sent without IDs.
	orphaned bool
}

// thought is a reasoning item that is being assembled.
type thought struct {
	id   string // the vendor's
	item *reasoningItem
}

// textRun is the message item that the next text may be appended to.
type textRun struct {
	item      *messageItem
	id, phase string
}

func inputOf(r *protocol.Request, stored bool) ([]any, error) {
	l := &lowering{
		r: r, stored: stored, items: []any{}, custom: map[string]bool{}, searches: map[string]bool{}, told: map[*llm.ToolResult]bool{}, hosted: hostedPairs(r.Messages),
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role != llm.RoleAssistant {
			l.endRun()
		}
		if err := l.message(m); err != nil {
			return nil, err
		}
	}
	l.endRun()
	return l.items, nil
}

// endRun ends the assistant's turn. It drops reasoning that nothing follows: the vendor rejects it, and a response that was
// truncated during reasoning is requested again.
func (l *lowering) endRun() {
	l.thought = nil
	for n := len(l.items); n > 0; n-- {
		if _, trailing := l.items[n-1].(*reasoningItem); !trailing {
			break
		}
		l.items = l.items[:n-1]
	}
	l.orphaned, l.text = false, textRun{}
}

// message converts a message. A host may store each part of a response as a separate message, so parts are grouped by IDs rather
// than by messages.
func (l *lowering) message(m *llm.Message) error {
	role := "user"
	if m.Role == llm.RoleSystem {
		role = "developer"
	}
	var spoken []any // by the user or the host
	for _, p := range m.Parts {
		if _, thinks := p.(*llm.Reasoning); !thinks {
			l.endThought()
		}
		switch p := p.(type) {
		case *llm.Text:
			switch {
			case p.Text == "":
			case m.Role == llm.RoleAssistant:
				l.said(p)
			default:
				spoken = append(spoken, textContent(p.Text))
			}
		case *llm.Media:
			c, err := mediaContent(l.r, p)
			if err != nil {
				return err
			}
			if m.Role == llm.RoleAssistant { // the format has no assistant images
				l.add(roleItem{"user", []any{c}})
			} else {
				spoken = append(spoken, c)
			}
		case *llm.Reasoning:
			l.reasoned(p)
		case *llm.ToolCall:
			if err := l.called(p); err != nil {
				return err
			}
		case *llm.ToolResult:
			if err := l.answered(p); err != nil {
				return err
			}
		}
	}
	if len(spoken) > 0 {
		l.add(roleItem{role, spoken})
	}
	return nil
}

func (l *lowering) add(item any) {
	l.items = append(l.items, item)
	l.text = textRun{}
}

func (l *lowering) meta(md llm.Metadata) itemMeta {
	var m itemMeta
	if raw := md[l.r.Namespace]; bytes.Contains(raw, []byte(`\u`)) {
		md = llm.Metadata{l.r.Namespace: json.RawMessage(unescaped.Replace(string(raw)))}
	}
	protocol.MetaOf(md, l.r.Namespace, &m)
	return m
}

// unescaped undoes the escapes that Go's JSON encoder adds, so that an item has the same bytes before and after it was stored. The
// first pair skips escaped backslashes.
var unescaped = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u2028`, "\u2028", `\u2029`, "\u2029")

// maxID is the maximum length of an item's ID for OpenAI. Proxies return longer ones.
const maxID = 64

// itemID returns the ID to send for an item, or "" for none. The vendor's own IDs have a prefix before "_"; others were generated
// elsewhere and are unknown to it.
func (l *lowering) itemID(id string) string {
	if l.orphaned || len(id) > maxID || len(id) < 3 || !strings.Contains(id[1:len(id)-1], "_") {
		return ""
	}
	return id
}

func (l *lowering) said(t *llm.Text) {
	m := l.meta(t.Metadata)
	content := outputText{Type: "output_text", Text: t.Text, Annotations: m.Annotations}
	if content.Annotations == nil {
		content.Annotations = []json.RawMessage{}
	}
	// Texts without an ID stay separate: otherwise an item that was sent before would change as the history grows.
	if run := l.text; run.item != nil && run.id != "" && run.id == m.ItemID && run.phase == m.Phase {
		run.item.Content = append(run.item.Content, content)
		return
	}
	item := &messageItem{
		Type: "message", ID: l.itemID(m.ItemID), Role: "assistant", Content: []outputText{content}, Phase: m.Phase,
	}
	l.add(item)
	l.text = textRun{item, m.ItemID, m.Phase}
}

func (l *lowering) reasoned(p *llm.Reasoning) {
	m := l.meta(p.Metadata)
	if m.Compaction != "" {
		l.endThought()
		l.orphaned = false
		l.add(compactionItem{"compaction", l.itemID(m.ItemID), m.Compaction})
		return
	}
	if l.thought == nil || l.thought.id == "" || l.thought.id != m.ItemID {
		l.endThought()
		l.thought = &thought{m.ItemID, &reasoningItem{Type: "reasoning", Summary: []reasoningText{}}}
	}
	item := l.thought.item
	if m.Encrypted != "" {
		item.EncryptedContent = m.Encrypted
	}
	switch {
	case p.Text == "":
	case m.Content:
		item.Content = append(item.Content, reasoningText{"reasoning_text", p.Text})
	default:
		item.Summary = append(item.Summary, reasoningText{"summary_text", p.Text})
	}
}

// endThought sends the assembled reasoning item if the vendor can use it: it reads its own encrypted reasoning and plain
// reasoning, and knows IDs only of responses that it stores.
func (l *lowering) endThought() {
	t := l.thought
	if t == nil {
		return
	}
	l.thought, l.orphaned = nil, false
	t.item.ID = l.itemID(t.id)
	if t.item.EncryptedContent == "" && (t.id == "" || len(t.item.Content) == 0) && (t.item.ID == "" || !l.stored) {
		l.orphaned = true
		return
	}
	l.add(t.item)
}

// callID returns a call's ID, shortened to the length that OpenAI accepts.
func callID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return protocol.WireName("", id)
}

// called converts a call in its original form. Only a grammar call that this model does not support becomes a function call.
func (l *lowering) called(c *llm.ToolCall) error {
	if c.ProviderExecuted {
		return l.hostedPair(c)
	}
	if delete(l.searches, c.ID); c.Search && searches(l.r) {
		l.search(c)
		return nil
	}
	native := c.Freeform && nativeFreeform(l.r)
	l.custom[c.ID] = native
	item := callItem{ID: l.itemID(l.meta(c.Metadata).ItemID), CallID: callID(c.ID)}
	item.Namespace, item.Name = wireName(l.r, c.Namespace, c.Name, native)
	input := c.Input
	switch {
	case native:
		item.Type, item.Input = "custom_tool_call", &input
	case c.Freeform:
		item.ID = "" // an ID for the other form
		input = string(l.r.FreeformArguments(c))
		item.Type, item.Arguments = "function_call", &input
	default:
		if input == "" {
			input = "{}"
		}
		item.Type, item.Arguments = "function_call", &input
	}
	l.add(item)
	return nil
}

func (l *lowering) answered(res *llm.ToolResult) error {
	if res.ProviderExecuted {
		if l.told[res] {
			return nil
		}
		if item := l.original(res); item != nil && res.Search { // the vendor accepts it without a call
			l.add(item)
			return nil
		}
		return l.summarise(res.Name, "", res)
	}
	if l.searches[res.ID] {
		l.searchResult(res)
		return nil
	}
	out, err := output(l.r, res.Content)
	if err != nil {
		return err
	}
	item := outputItem{Type: "function_call_output", CallID: callID(res.ID), Output: out}
	if l.custom[res.ID] {
		item.Type = "custom_tool_call_output"
	}
	l.add(item)
	return nil
}
