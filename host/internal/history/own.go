package history

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// own returns the part of metadata that the model's provider may see: its own namespace, byte for byte. same reports whether that
// is all of it.
func (t Traits) own(md llm.Metadata) (_ llm.Metadata, same bool) {
	if len(md) == 0 {
		return md, true
	}
	raw, ok := md[t.Namespace]
	switch {
	case !ok || t.Namespace == "":
		return nil, false
	case len(md) == 1:
		return md, true
	}
	return llm.Metadata{t.Namespace: raw}, false
}

// isOwn reports whether the model's provider made a part. Parts of hosted calls always have their vendor's namespace.
func (t Traits) isOwn(md llm.Metadata) bool {
	_, ok := md[t.Namespace]
	return ok && t.Namespace != ""
}

// part returns a part as the model's provider may see it: p itself if nothing changes, nil if nothing is left.
func (t Traits) part(p llm.Part) llm.Part {
	switch p := p.(type) {
	case *llm.Text:
		md, same := t.own(p.Metadata)
		if same {
			return p
		}
		if p.Text == "" && md == nil { // only its metadata mattered
			return nil
		}
		q := *p
		q.Metadata = md
		return &q
	case *llm.Reasoning:
		// Reasoning of another vendor's model is of no use without its encrypted form.
		if len(p.Metadata) > 0 && !t.isOwn(p.Metadata) {
			return nil
		}
		md, same := t.own(p.Metadata)
		if same {
			return p
		}
		q := *p
		q.Metadata = md
		return &q
	case *llm.Media:
		if text := t.omitted(p); text != "" {
			return &llm.Text{Text: text}
		}
		md, same := t.own(p.Metadata)
		if same {
			return p
		}
		q := *p
		q.Metadata = md
		return &q
	case *llm.Sealed:
		if p.Namespace != t.Namespace || t.Namespace == "" {
			return &llm.Text{Text: sealedOmitText}
		}
		md, same := t.own(p.Metadata)
		if same {
			return p
		}
		q := *p
		q.Metadata = md
		return &q
	case *llm.ToolCall:
		if p.ProviderExecuted && !t.isOwn(p.Metadata) {
			return &llm.Text{Text: hostedCall(p)}
		}
		md, same := t.own(p.Metadata)
		if same {
			return p
		}
		q := *p
		q.Metadata = md
		return &q
	case *llm.ToolResult:
		if p.ProviderExecuted && !t.isOwn(p.Metadata) {
			return &llm.Text{Text: hostedResult(p)}
		}
		md, same := t.own(p.Metadata)
		content := t.parts(p.Content)
		if same && sameParts(content, p.Content) {
			return p
		}
		q := *p
		q.Metadata, q.Content = md, content
		return &q
	}
	return p
}

// parts does the same for a list; it returns the same list if nothing changes.
func (t Traits) parts(in []llm.Part) []llm.Part {
	for i, p := range in {
		q := t.part(p)
		if q == p {
			continue
		}
		out := append(make([]llm.Part, 0, len(in)), in[:i]...)
		if q != nil {
			out = append(out, q)
		}
		for _, p := range in[i+1:] {
			if q := t.part(p); q != nil {
				out = append(out, q)
			}
		}
		return out
	}
	return in
}

func sameParts(a, b []llm.Part) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// maxHosted limits the input and output that are quoted of another vendor's tool. The answer that followed has what mattered.
var maxHosted = Policy{Limit: 1_000}

// hostedCall and hostedResult describe a call that another vendor ran: only that vendor accepts it as a call.
func hostedCall(c *llm.ToolCall) string {
	s := "(The tool " + c.Name + " was run by the vendor of the model that answered here"
	if in := strings.TrimSpace(c.Input); in != "" && in != "{}" {
		s += ", with " + Truncate(in, maxHosted)
	}
	return s + ".)"
}

func hostedResult(r *llm.ToolResult) string {
	said := strings.TrimSpace(llm.Message{Parts: r.Content}.Text())
	switch {
	case said == "":
		return "(What the tool " + r.Name + " gave is not shown here.)"
	case r.IsError:
		return "(The tool " + r.Name + " failed: " + Truncate(said, maxHosted) + ")"
	}
	return "(The tool " + r.Name + " gave:)\n" + Truncate(said, maxHosted)
}
