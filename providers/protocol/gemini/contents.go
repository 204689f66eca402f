package gemini

import (
	"encoding/base64"
	"fmt"
	"net/url"
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
			err = invalid(fmt.Sprintf("message %d has no role", i), "")
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
			return invalid(fmt.Sprintf("a user's message can't hold a %T", p), "")
		}
	}
	return nil
}

// update tells a note of the host. Results take no other part beside them, so a note among them comes after them.
func (l *lowering) update(m *llm.Message) {
	p := textPart(protocol.SystemUpdate(m.Text()))
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
			return invalid(fmt.Sprintf("an assistant's message can't hold a %T", p), "")
		}
	}
	return nil
}

func (l *lowering) call(c *llm.ToolCall) {
	if c.ProviderExecuted {
		l.hostedPart(c.Metadata)
		return
	}
	fc := &functionCall{Name: protocol.WireName(c.Namespace, c.Name), Args: l.arguments(c)}
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
			return invalid(fmt.Sprintf("a tool's message can't hold a %T", p), "")
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
			return part{}, invalid(fmt.Sprintf("a tool's result can't hold a %T", p), "")
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
	mediaType, data := m.MediaType, m.Data
	switch {
	case m.Artifact != "":
		return part{}, invalid("a stored file of the history was not loaded before the request was made", "")
	case strings.HasPrefix(m.URL, "data:"):
		var err error
		if mediaType, data, err = dataURL(m.URL); err != nil {
			return part{}, err
		}
		if m.MediaType != "" {
			mediaType = m.MediaType
		}
	}
	kind := modality(mediaType)
	if !l.r.Model.Takes(kind) || kind == "image" && l.r.Model.Compat.NoImages {
		l.r.Warning(fmt.Sprintf("the model %s takes no files of the type %s; one was left out", modelID(l.r), mediaType))
		return textPart("[a file of the type " + mediaType + " was left out: the model does not take it]"), nil
	}
	if m.URL != "" && data == nil {
		return part{FileData: &fileData{MIMEType: mediaType, FileURI: m.URL}}, nil
	}
	if len(data) == 0 {
		return part{}, invalid("a file of the type "+mediaType+" has no content", "")
	}
	return part{InlineData: &blob{MIMEType: mediaType, Data: data}}, nil
}

// modality is the kind of input that a media type counts as.
func modality(mediaType string) string {
	switch kind, _, _ := strings.Cut(mediaType, "/"); {
	case mediaType == "application/pdf":
		return "pdf"
	case kind == "image", kind == "audio", kind == "video", kind == "text":
		return kind
	}
	return mediaType
}

// dataURL takes a "data:" URL apart.
func dataURL(s string) (mediaType string, data []byte, err error) {
	head, payload, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	if !ok {
		return "", nil, invalid("a file's data URL has no data", "")
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	mediaType, _, _ = strings.Cut(head, ";")
	if isBase64 {
		data, err = base64.StdEncoding.DecodeString(payload)
	} else {
		var text string
		text, err = url.PathUnescape(payload)
		data = []byte(text)
	}
	if err != nil {
		return "", nil, invalid("a file's data URL can't be read: "+err.Error(), "")
	}
	return mediaType, data, nil
}
