package history

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// own is what of some metadata the model's provider may see: its own namespace, byte for byte. same tells that this is
// all there is.
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

// ours tells that the model's provider made a part. Parts of calls that a vendor ran always say who did.
func (t Traits) ours(md llm.Metadata) bool {
	_, ok := md[t.Namespace]
	return ok && t.Namespace != ""
}

// part is a part as the model's provider may see it: p itself where nothing has to change, nil where nothing is left.
func (t Traits) part(p llm.Part) llm.Part {
	switch p := p.(type) {
	case *llm.Text:
		md, same := t.own(p.Metadata)
		if same {
			return p
		}
		if p.Text == "" && md == nil { // it was there for what it carried
			return nil
		}
		q := *p
		q.Metadata = md
		return &q
	case *llm.Reasoning:
		// Thoughts of another vendor's model mean nothing without the seal that they came with.
		if len(p.Metadata) > 0 && !t.ours(p.Metadata) {
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
		if p.ProviderExecuted && !t.ours(p.Metadata) {
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
		if p.ProviderExecuted && !t.ours(p.Metadata) {
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

// parts is a list of parts as the model's provider may see them: the same list where nothing has to change.
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

// maxHosted is how much is told of what another vendor's tool was asked, and of what it gave. What mattered of it stands
// in the answer that followed.
var maxHosted = Policy{Limit: 1_000}

// hostedCall and hostedResult tell in words of a call that another vendor ran: no other can take it as a call.
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
