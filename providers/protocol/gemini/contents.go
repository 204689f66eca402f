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

// skipSignatures stands for the signature of a call that none was made for, because another model made the call or the
// history lost it. It is Google's own word; without it the call is refused.
const skipSignatures = "skip_thought_signature_validator"

// lowering turns one request into a body.
type lowering struct {
	r        *protocol.Request
	gen      generation
	contents []content
	// answering is set while the last content holds results. All results of a turn belong into one content and nothing else
	// does, so what comes between them waits in later.
	answering bool
	later     []part
}

// partMeta is what comes back with a part.
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

// add appends parts to the last content where it is of that role and takes them, since a message here may be a single
// block of an answer; else to a content of their own.
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

// update tells a note of the host. Results take no other part beside them, so a note among them comes after them.
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
			// Only a signed thought has a place that matters. Others are summaries, or come from elsewhere.
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

// hostedPart gives back what a hosted tool did. What another vendor's tools did can't be said in this format.
func (l *lowering) hostedPart(md llm.Metadata) {
	if m := l.meta(md); m.Hosted != nil && !m.Hosted.empty() {
		l.add(roleModel, part{hosted: *m.Hosted, ThoughtSignature: m.ThoughtSignature})
	}
}

// signBatch marks the calls of an answer none of which is signed. Where one is, the others are meant to have none.
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
	var beside []part // media that the result can't hold
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

// nestable are the kinds of media that a result may hold.
func nestable(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain":
		return true
	}
	return false
}

// media lowers a file; one that the model does not take becomes a note.
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
