package gemini

import (
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	roleUser  = "user"
	roleModel = "model"
)

// skipSignatures replaces the signature of a call that has none, because another model made the call or the history lost it.
// Google defines this value; without it, the call is rejected.
const skipSignatures = "skip_thought_signature_validator"

// lowering is the conversion of a request to a body.
type lowering struct {
	r        *protocol.Request
	gen      generation
	contents []content
	// answering is set while the last content holds results. All results of a turn must be in one content without other parts,
	// which are held in later.
	answering bool
	later     []part
}

// partMeta is the metadata that is sent back with a part.
type partMeta struct {
	ThoughtSignature string  `json:"thoughtSignature"`
	Hosted           *hosted `json:"part"` // the vendor's own form of a call or result of its own tools
}

func (l *lowering) meta(md llm.Metadata) (m partMeta) {
	protocol.MetaOf(md, l.r.Namespace, &m)
	return m
}

func (l *lowering) lower() ([]content, error) {
	l.contents = make([]content, 0, len(l.r.Messages))
	for i := range l.r.Messages {
		m := &l.r.Messages[i]
		var err error
		switch m.Role {
		case llm.RoleTool:
			err = l.results(m)
		case llm.RoleSystem:
			l.update(m)
		case llm.RoleUser:
			err = l.user(m)
		case llm.RoleAssistant:
			err = l.assistant(m)
		default:
			err = protocol.Invalid("", "message %d has no role", i)
		}
		if err != nil {
			return nil, err
		}
	}
	l.flush()
	if l.gen.signedCalls() {
		for _, c := range l.contents {
			signBatch(c)
		}
	}
	return l.contents, nil
}

// add appends parts to the last content if its role matches and it accepts them, because a message may be a single block of a
// response. Otherwise it adds a content.
func (l *lowering) add(role string, parts ...part) {
	if len(parts) == 0 {
		return
	}
	if n := len(l.contents); n > 0 && l.contents[n-1].Role == role && !l.answering {
		l.contents[n-1].Parts = append(l.contents[n-1].Parts, parts...)
		return
	}
	l.answering = false
	l.contents = append(l.contents, content{Role: role, Parts: parts})
}

// flush ends the results of a turn.
func (l *lowering) flush() {
	later := l.later
	l.later = nil
	l.add(roleUser, later...)
}

func (l *lowering) user(m *llm.Message) error {
	l.flush()
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Text:
			l.add(roleUser, textPart(p.Text))
		case *llm.Media:
			q, err := l.media(p)
			if err != nil {
				return err
			}
			l.add(roleUser, q)
		default:
			return protocol.Invalid("", "a user's message can't hold a %T", p)
		}
	}
	return nil
}

// update adds a note of the host. A note between results is added after them, because results accept no other parts next to them.
func (l *lowering) update(m *llm.Message) {
	p := textPart(protocol.SystemUpdate(protocol.Note(*m)))
	if l.answering {
		l.later = append(l.later, p)
		return
	}
	l.add(roleUser, p)
}

func (l *lowering) assistant(m *llm.Message) error {
	l.flush()
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Text:
			q := textPart(p.Text)
			q.ThoughtSignature = l.meta(p.Metadata).ThoughtSignature
			l.add(roleModel, q)
		case *llm.Reasoning:
			// Only signed thoughts must keep their position. Others are summaries, or come from another vendor.
			if signature := l.meta(p.Metadata).ThoughtSignature; signature != "" {
				q := textPart(p.Text)
				q.Thought, q.ThoughtSignature = true, signature
				l.add(roleModel, q)
			}
		case *llm.ToolCall:
			l.call(p)
		case *llm.ToolResult:
			l.hostedPart(p.Metadata)
		case *llm.Media:
			q, err := l.media(p)
			if err != nil {
				return err
			}
			l.add(roleModel, q)
		default:
			return protocol.Invalid("", "an assistant's message can't hold a %T", p)
		}
	}
	return nil
}

func (l *lowering) call(c *llm.ToolCall) {
	if c.ProviderExecuted {
		l.hostedPart(c.Metadata)
		return
	}
	fc := &functionCall{Name: protocol.WireName(c.Namespace, c.Name), Args: l.r.Arguments(c)}
	if l.gen.callIDs() {
		fc.ID = c.ID
	}
	l.add(roleModel, part{FunctionCall: fc, ThoughtSignature: l.meta(c.Metadata).ThoughtSignature})
}

// hostedPart returns the record of a hosted tool. The format has no representation for other vendors' tools.
func (l *lowering) hostedPart(md llm.Metadata) {
	if m := l.meta(md); m.Hosted != nil && !m.Hosted.empty() {
		l.add(roleModel, part{hosted: *m.Hosted, ThoughtSignature: m.ThoughtSignature})
	}
}

// signBatch marks the calls of a response if none of them is signed. If one is, the others need no signature.
func signBatch(c content) {
	for _, p := range c.Parts {
		if p.FunctionCall != nil && p.ThoughtSignature != "" {
			return
		}
	}
	for i := range c.Parts {
		if c.Parts[i].FunctionCall != nil {
			c.Parts[i].ThoughtSignature = skipSignatures
		}
	}
}

func (l *lowering) results(m *llm.Message) error {
	for _, p := range m.Parts {
		res, ok := p.(*llm.ToolResult)
		if !ok {
			return protocol.Invalid("", "a tool's message can't hold a %T", p)
		}
		q, err := l.result(res)
		if err != nil {
			return err
		}
		if l.answering {
			last := &l.contents[len(l.contents)-1]
			last.Parts = append(last.Parts, q)
			continue
		}
		l.contents = append(l.contents, content{Role: roleUser, Parts: []part{q}})
		l.answering = true
	}
	return nil
}

func (l *lowering) result(res *llm.ToolResult) (part, error) {
	name := protocol.WireName(res.Namespace, res.Name)
	fr := &functionResponse{Name: name, Response: response{Name: name}}
	if l.gen.callIDs() {
		fr.ID = res.ID
	}
	var texts []string
	var beside []part // media that the result cannot contain
	for _, p := range res.Content {
		switch p := p.(type) {
		case *llm.Text:
			texts = append(texts, p.Text)
		case *llm.Media:
			q, err := l.media(p)
			switch {
			case err != nil:
				return part{}, err
			case q.Text != nil: // a note
				texts = append(texts, *q.Text)
			case l.gen.nestedMedia() && q.InlineData != nil && nestable(q.InlineData.MIMEType):
				fr.Parts = append(fr.Parts, mediaPart{InlineData: q.InlineData})
			default:
				beside = append(beside, q)
			}
		default:
			return part{}, protocol.Invalid("", "a tool's result can't hold a %T", p)
		}
	}
	text := strings.Join(texts, "\n")
	if res.IsError {
		fr.Response.Error = &text
	} else {
		fr.Response.Content = &text
	}
	if len(beside) > 0 {
		l.later = append(append(l.later, textPart("Media in the result of "+name+":")), beside...)
	}
	return part{FunctionResponse: fr}, nil
}

// nestable reports whether a result may contain media of this type.
func nestable(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain":
		return true
	}
	return false
}

// media converts a file. What the model does not support is replaced by a note.
func (l *lowering) media(m *llm.Media) (part, error) {
	c, err := protocol.ContentOf(m)
	if err != nil {
		return part{}, err
	}
	kind := protocol.Modality(c.Type)
	if !l.r.Model.Takes(kind) || kind == "image" && l.r.Model.Compat.NoImages {
		return textPart(l.r.LeaveOut(m, protocol.NotTaken)), nil
	}
	if c.URL != "" {
		return part{FileData: &fileData{MIMEType: c.Type, FileURI: c.URL}}, nil
	}
	return part{InlineData: &blob{MIMEType: c.Type, Data: c.Data}}, nil
}
