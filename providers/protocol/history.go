package protocol

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Texts of an empty result, and of one that is missing.
const (
	noOutput      = "(no tool output)"
	missingResult = "The result of this call is missing: the call ended before it could be recorded."
)

// Normalised returns a copy of r with a consistent history and tools, whatever their origin. It does not modify r, and shares
// unchanged parts with it:
//
//   - Consecutive assistant messages are merged, as in the vendor's original response.
//   - Results directly follow their calls: a late result is moved forward, and notes of the host wait until all calls are answered. A client-side call without a result gets an error result; a result without a call is
//     dropped.
//   - An empty result gets a text, and each result has the name of its call. Empty texts and messages without parts are dropped.
//   - Metadata of other namespaces is dropped, and reasoning that only has such metadata with it. Data of another model family is dropped too ([Request.Stamped]); the text of that reasoning stays.
//   - Sampling settings that the model rejects are dropped.
//   - Of tools with the same name on the wire, the last one is kept. Texts are valid UTF-8 without lone surrogates.
//
// Normalised is idempotent.
func Normalised(r *Request) *Request {
	inner := *r.Request
	inner.System = validTexts(r.System)
	inner.Tools = validTools(r.Tools)
	inner.OutputSchema = validRaw(r.OutputSchema)
	inner.Generation = r.generation()
	p := pairing{req: r, in: r.cleaned()}
	inner.Messages = p.run()
	out := *r
	out.Request = &inner
	return &out
}

func validTexts(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, validText(t))
		}
	}
	return out
}

func validTools(tools []llm.Tool) []llm.Tool {
	last := map[string]int{}
	for i, t := range tools {
		last[WireName(t.Namespace, t.Name)] = i
	}
	var out []llm.Tool
	for i, t := range tools {
		if last[WireName(t.Namespace, t.Name)] != i {
			continue
		}
		t.Description = validText(t.Description)
		t.InputSchema = validRaw(t.InputSchema)
		out = append(out, t)
	}
	return out
}

func validRaw(raw json.RawMessage) json.RawMessage {
	if s := validJSON(string(raw)); s != string(raw) {
		return json.RawMessage(s)
	}
	return raw
}

// cleaned returns the history with each part cleaned separately.
func (r *Request) cleaned() []llm.Message {
	out := make([]llm.Message, 0, len(r.Messages))
	for _, m := range r.Messages {
		m.Metadata = r.own(m.Metadata)
		m.Parts = r.parts(m.Parts)
		if len(m.Parts) > 0 {
			out = append(out, m)
		}
	}
	return out
}

func (r *Request) parts(in []llm.Part) []llm.Part {
	out := make([]llm.Part, 0, len(in))
	for _, p := range in {
		if p = r.part(p); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// part returns a cleaned part, or nil if nothing is left.
func (r *Request) part(p llm.Part) llm.Part {
	switch p := p.(type) {
	case *llm.Text:
		q := *p
		q.Text, q.Metadata = validText(p.Text), r.own(p.Metadata)
		if q.Text == "" && q.Metadata == nil {
			return nil
		}
		return &q
	case *llm.Reasoning:
		if r.foreign(p.Metadata) {
			return nil
		}
		q := *p
		q.Text, q.Metadata = validText(p.Text), r.own(p.Metadata)
		if q.Text == "" && q.Metadata == nil {
			return nil
		}
		return &q
	case *llm.Media:
		q := *p
		q.Filename, q.URL, q.Metadata = validText(p.Filename), validText(p.URL), r.own(p.Metadata)
		return &q
	case *llm.Sealed:
		if p.Namespace != r.Namespace || !r.Model.Compat.SealedOutput {
			return &llm.Text{Text: sealedText}
		}
		q := *p
		q.Metadata = r.own(p.Metadata)
		return &q
	case *llm.ToolCall:
		q := *p
		q.Metadata = r.own(p.Metadata)
		if q.Freeform {
			q.Input = validText(p.Input)
		} else if q.Input = validJSON(p.Input); q.Input == "" {
			q.Input = "{}"
		}
		return &q
	case *llm.ToolResult:
		q := *p
		q.Metadata = r.own(p.Metadata)
		if q.Content = r.parts(p.Content); len(q.Content) == 0 && !q.ProviderExecuted {
			q.Content = llm.Parts{&llm.Text{Text: noOutput}}
		}
		return &q
	}
	return p
}

// sealedText replaces content that the model cannot read.
const sealedText = "encrypted content omitted because this model can't read it"

// pairing moves results to their calls.
type pairing struct {
	req     *Request
	in, out []llm.Message
	pending []*llm.ToolCall          // client-side calls in the last assistant message without a result so far
	held    []llm.Message            // notes of the host that wait for the results
	taken   map[*llm.ToolResult]bool // results that were moved forward
}

func (p *pairing) run() []llm.Message {
	for i, m := range p.in {
		switch m.Role {
		case llm.RoleTool:
			p.results(m)
		case llm.RoleSystem:
			if len(p.pending) > 0 {
				p.held = append(p.held, m)
			} else {
				p.out = append(p.out, m)
			}
		case llm.RoleAssistant:
			p.assistant(i, m)
		default:
			p.settle(i)
			p.out = append(p.out, m)
		}
	}
	p.settle(len(p.in))
	return p.out
}

func (p *pairing) assistant(i int, m llm.Message) {
	if last := len(p.out) - 1; last >= 0 && p.out[last].Role == llm.RoleAssistant && len(p.held) == 0 {
		before := &p.out[last]
		before.Parts = slices.Concat(before.Parts, m.Parts)
		before.Metadata = overlaid(before.Metadata, m.Metadata)
	} else {
		p.settle(i)
		p.out = append(p.out, m)
	}
	for _, part := range m.Parts {
		if c, ok := part.(*llm.ToolCall); ok && !c.ProviderExecuted {
			p.pending = append(p.pending, c)
		}
	}
}

func overlaid(under, over llm.Metadata) llm.Metadata {
	if len(under) == 0 {
		return over
	}
	out := maps.Clone(under)
	maps.Copy(out, over)
	return out
}

// results handles a message with results.
func (p *pairing) results(m llm.Message) {
	parts := make([]llm.Part, 0, len(m.Parts))
	for _, part := range m.Parts {
		res, ok := part.(*llm.ToolResult)
		if !ok || res.ProviderExecuted {
			parts = append(parts, part)
			continue
		}
		if p.taken[res] {
			continue
		}
		call := slices.IndexFunc(p.pending, func(c *llm.ToolCall) bool { return c.ID == res.ID })
		if call < 0 {
			p.req.Warning("omitted the result of call " + res.ID + ", which is not in the history")
			continue
		}
		parts = append(parts, named(res, p.pending[call]))
		p.pending = slices.Delete(p.pending, call, call+1)
	}
	if len(parts) > 0 {
		m.Parts = parts
		p.out = append(p.out, m)
	}
	if len(p.pending) == 0 {
		p.release()
	}
}

// settle answers the calls that are still open before message i.
func (p *pairing) settle(i int) {
	for _, c := range p.pending {
		res := p.late(c.ID, p.in[i:])
		if res == nil {
			res = &llm.ToolResult{ID: c.ID, IsError: true, Content: llm.Parts{&llm.Text{Text: missingResult}}}
		}
		p.out = append(p.out, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{named(res, c)}})
	}
	p.pending = nil
	p.release()
}

func (p *pairing) release() {
	p.out = append(p.out, p.held...)
	p.held = nil
}

// late finds the result of a call in later messages, until its ID is used for another call.
func (p *pairing) late(id string, rest []llm.Message) *llm.ToolResult {
	for _, m := range rest {
		for _, part := range m.Parts {
			switch part := part.(type) {
			case *llm.ToolCall:
				if part.ID == id && !part.ProviderExecuted {
					return nil
				}
			case *llm.ToolResult:
				if m.Role == llm.RoleTool && part.ID == id && !part.ProviderExecuted && !p.taken[part] {
					if p.taken == nil {
						p.taken = map[*llm.ToolResult]bool{}
					}
					p.taken[part] = true
					return part
				}
			}
		}
	}
	return nil
}

// named returns a result with the name of its call.
func named(res *llm.ToolResult, c *llm.ToolCall) *llm.ToolResult {
	out := *res
	out.Name, out.Namespace, out.Freeform, out.Search = c.Name, c.Namespace, c.Freeform, c.Search
	return &out
}
