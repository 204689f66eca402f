package converse

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Roles on the wire.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// Texts where the service requires one.
const (
	goOn        = "Continue."
	seeDocument = "See the document."
)

// history converts a request's messages to turns.
type history struct {
	*lowering
	done []turn
	role string // of the current turn; empty: none
	// results are the user's blocks that answer calls; rest are the turn's other blocks.
	results, rest []block
	thoughts      []block // wait for the block that follows them
	ids           protocol.CallIDs
	titles        map[string]int // of documents, with their number of occurrences
}

func (l *lowering) history() ([]turn, error) {
	h := &history{lowering: l, titles: map[string]int{}}
	for i := range l.Messages {
		if err := h.message(&l.Messages[i]); err != nil {
			return nil, err
		}
		if slices.Contains(l.marks.Messages, i) {
			h.mark()
		}
	}
	if h.role == roleAssistant {
		h.begin(roleUser)
		h.rest = append(h.rest, textBlock(goOn))
	}
	h.flush()
	return h.done, nil
}

// mark ends the part of the conversation that the cache keeps. If a message has no content, the preceding one is marked.
func (h *history) mark() {
	switch n := len(h.done); {
	case len(h.results)+len(h.rest) > 0:
		h.rest = append(h.rest, h.cachePoint())
	case n > 0:
		h.done[n-1].Content = append(h.done[n-1].Content, h.cachePoint())
	}
}

func (h *history) message(m *llm.Message) error {
	if m.Role == llm.RoleSystem {
		h.ask(textBlock(protocol.SystemUpdate(protocol.Note(*m))))
		return nil
	}
	for _, p := range m.Parts {
		var err error
		switch p := p.(type) {
		case *llm.Text:
			switch {
			case strings.TrimSpace(p.Text) == "": // would be rejected
			case m.Role == llm.RoleAssistant:
				h.answer(textBlock(p.Text))
			default:
				h.ask(textBlock(p.Text))
			}
		case *llm.Media:
			err = h.media(m.Role, p)
		case *llm.Reasoning:
			if b, ok := h.thought(p); ok {
				h.thoughts = append(h.thoughts, b)
			}
		case *llm.ToolCall:
			if !p.ProviderExecuted { // the format has no representation for tools that another vendor ran
				h.answer(block{ToolUse: &toolUse{
					ToolUseID: h.ids.Call(p.ID), Name: protocol.WireName(p.Namespace, p.Name), Input: h.Arguments(p),
				}})
			}
		case *llm.ToolResult:
			err = h.result(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin continues the turn of a role, or starts one.
func (h *history) begin(role string) {
	if role == roleUser {
		h.thoughts = nil // nothing follows them
	}
	if h.role != role {
		h.flush()
		h.role = role
	}
}

// ask adds a block to the user's turn, answer to the model's.
func (h *history) ask(b block) {
	h.begin(roleUser)
	h.rest = append(h.rest, b)
}

func (h *history) answer(b block) {
	h.begin(roleAssistant)
	h.rest = append(append(h.rest, h.thoughts...), b)
	h.thoughts = nil
}

// flush appends the current turn.
func (h *history) flush() {
	content := append(h.results, h.rest...)
	h.results, h.rest = nil, nil
	if len(content) == 0 {
		return
	}
	if len(h.done) == 0 && h.role == roleAssistant {
		h.done = append(h.done, turn{roleUser, []block{textBlock(goOn)}})
	}
	documents := slices.ContainsFunc(content, func(b block) bool { return b.Document != nil })
	if documents && !slices.ContainsFunc(content, func(b block) bool { return b.Text != nil }) {
		content = slices.Insert(content, len(content)-trailingMarks(content), textBlock(seeDocument))
	}
	h.done = append(h.done, turn{h.role, content})
}

func trailingMarks(content []block) int {
	if content[len(content)-1].CachePoint != nil {
		return 1
	}
	return 0
}

// thought returns reasoning unchanged. Without its signature, the service rejects it.
func (h *history) thought(p *llm.Reasoning) (block, bool) {
	s, ok := claude.SealOf(h.Request, p)
	switch {
	case !ok:
		return block{}, false
	case s.Signature == "" && s.RedactedData != "":
		return block{ReasoningContent: &reasoning{RedactedContent: s.RedactedData}}, true
	}
	return block{ReasoningContent: &reasoning{ReasoningText: &reasoningText{Text: p.Text, Signature: s.Signature}}}, true
}

func (h *history) result(r *llm.ToolResult) error {
	if r.ProviderExecuted {
		return nil
	}
	id, ok := h.ids.Result(r.ID)
	if !ok {
		return nil // would be rejected without its call
	}
	h.begin(roleUser)
	out := &toolResult{ToolUseID: id}
	plain := h.Model.Compat.PlainResults
	if r.IsError && !plain {
		out.Status = "error"
	}
	var beside []block
	for _, p := range r.Content {
		switch p := p.(type) {
		case *llm.Text:
			if strings.TrimSpace(p.Text) != "" {
				out.Content = append(out.Content, textBlock(p.Text))
			}
		case *llm.Media:
			b, err := h.block(p)
			if err != nil {
				return err
			}
			if plain && b.Text == nil {
				beside = append(beside, b)
			} else {
				out.Content = append(out.Content, b)
			}
		}
	}
	if len(beside) > 0 {
		h.rest = append(append(h.rest, textBlock("Media in the result of "+protocol.WireName(r.Namespace, r.Name)+":")), beside...)
	}
	if len(out.Content) == 0 {
		out.Content = []block{textBlock("(no tool output)")}
	}
	h.results = append(h.results, block{ToolResult: out})
	return nil
}

func (h *history) media(role llm.Role, m *llm.Media) error {
	if role == llm.RoleAssistant {
		h.Warning("media in a response are omitted: the format only supports them in user messages")
		return nil
	}
	b, err := h.block(m)
	if err == nil {
		h.ask(b)
	}
	return err
}

// block converts media. What the service or the model does not support is replaced by a note.
func (h *history) block(m *llm.Media) (block, error) {
	c, err := protocol.ContentOf(m)
	if err != nil {
		return block{}, err
	}
	out := &media{Format: formats[c.Type], Source: source{Bytes: c.Data}}
	switch {
	case strings.HasPrefix(c.URL, "s3://"):
		out.Source = source{S3Location: &s3Location{c.URL}}
	case c.URL != "":
		return textBlock(h.LeaveOut(m, "the service fetches nothing from the web")), nil
	}
	modality := protocol.Modality(c.Type)
	if modality == "text" {
		out.Format = cmp.Or(out.Format, "txt")
	}
	takes := h.Model.Takes(modality)
	switch {
	case out.Format == "":
	case modality == "image" && takes && !h.Model.Compat.NoImages:
		return block{Image: out}, nil
	case modality == "video" && takes:
		return block{Video: out}, nil
	case modality == "pdf" && takes, modality == "text":
		out.Name = h.title(m.Filename)
		return block{Document: out}, nil
	}
	return textBlock(h.LeaveOut(m, protocol.NotTaken)), nil
}

// formats are the service's names for media types.
var formats = map[string]string{
	"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp",
	"video/mp4": "mp4", "video/webm": "webm", "video/quicktime": "mov", "video/x-matroska": "mkv", "video/mpeg": "mpeg",
	"application/pdf": "pdf", "text/markdown": "md", "text/csv": "csv", "text/html": "html",
}

// title returns a document's name, which the service requires to be unique and limits to a few characters.
func (h *history) title(filename string) string {
	name := protocol.Title(filename)
	if name == "" {
		name = "document"
	}
	h.titles[name]++
	if n := h.titles[name]; n > 1 {
		return h.title(name + " " + strconv.Itoa(n))
	}
	return name
}
