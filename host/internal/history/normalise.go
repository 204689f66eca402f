package history

import (
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Traits are what of a model decides about what it is shown.
type Traits struct {
	Images bool
	Audio  bool
	// Namespace is the key of the metadata that the model's provider wants back; empty: it takes back nothing.
	Namespace string
	// Paused is how many messages there were when the provider paused its answer, to go on with it in the next request; 0: it
	// did not.
	Paused int
	// PausedWith is what the provider wants back of that answer as a whole: by it, it knows that it is to go on.
	PausedWith llm.Metadata
}

// TraitsOf returns the traits of a model row.
func TraitsOf(row llm.ModelRow) Traits {
	return Traits{
		Images: slices.Contains(row.InputModalities, "image"), Audio: slices.Contains(row.InputModalities, "audio"),
		Namespace: row.MetadataNamespace,
	}
}

// Texts that stand in the place of what a model can't be shown.
const (
	abortedText      = "aborted"
	imageOmittedText = "image content omitted because you do not support image input"
	audioOmittedText = "audio content omitted because you do not support audio input"
	sealedOmitText   = "encrypted content omitted because only models of another vendor can read it"
)

// ForPrompt returns the messages for a request. The stored history stays as it is; where nothing has to change, the
// result shares its messages. A call without an output gets the output "aborted" directly behind it, an output without
// a call is left out, and media that the model can't take become a line of text. What only another vendor can read is
// taken out: metadata of other namespaces, and reasoning that is theirs. Calls that another vendor ran become words; of those
// that the model's own vendor ran, a call without a result and a result without a call are left out.
func (h *History) ForPrompt(t Traits) []llm.Message {
	left := answers(h.messages)
	halves := t.halves(h.messages)
	asked := map[string]bool{}
	for _, c := range calls(h.messages) {
		asked[c.ID] = true
	}
	out := make([]llm.Message, 0, len(h.messages)+2)
	for i, m := range h.messages {
		if i == t.Paused-1 && m.Role == llm.RoleAssistant && t.PausedWith != nil {
			m.Metadata = maps.Clone(m.Metadata)
			if m.Metadata == nil {
				m.Metadata = llm.Metadata{}
			}
			maps.Copy(m.Metadata, t.PausedWith)
		}
		var missing []llm.Part
		alone := false
		for _, p := range m.Parts {
			alone = alone || halves[p] || orphan(p, asked)
			if p, ok := p.(*llm.ToolCall); ok {
				if !p.ProviderExecuted && !left.take(p.ID) {
					missing = append(missing, &llm.ToolResult{
						ID: p.ID, Name: p.Name, Namespace: p.Namespace, Freeform: p.Freeform, Search: p.Search, IsError: true,
						Content: llm.Parts{&llm.Text{Text: abortedText}},
					})
				}
			}
		}
		if alone {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool { return halves[p] || orphan(p, asked) })
		}
		m.Metadata, _ = t.own(m.Metadata)
		if m.Parts = t.parts(m.Parts); len(m.Parts) > 0 {
			out = append(out, m)
		}
		if len(missing) > 0 {
			out = append(out, llm.Message{Role: llm.RoleTool, Parts: missing})
		}
	}
	return out
}

// halves are the calls that the model's vendor ran and that have no result, and results of such that have no call: a stream
// that broke leaves them, and the vendor refuses one without the other. Only what it paused in the middle of, it takes back
// as it is, as long as the user has said nothing since.
func (t Traits) halves(ms []llm.Message) map[llm.Part]bool {
	var out map[llm.Part]bool // made where there is one: most threads have none
	half := func(p llm.Part, is bool) {
		if is && out == nil {
			out = map[llm.Part]bool{}
		}
		if out != nil {
			out[p] = is
		}
	}
	open := map[string][]llm.Part{}
	said := 0 // behind the user's last word
	for i, m := range ms {
		if m.Role == llm.RoleUser {
			said = i + 1
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				if p.ProviderExecuted && t.ours(p.Metadata) {
					open[p.ID] = append(open[p.ID], p)
					half(p, true)
				}
			case *llm.ToolResult:
				switch calls := open[p.ID]; {
				case !p.ProviderExecuted || !t.ours(p.Metadata):
				case len(calls) == 0:
					half(p, !p.Search) // what a search of the vendor's gave stands by itself
				default:
					half(calls[0], false)
					open[p.ID] = calls[1:]
				}
			}
		}
	}
	for i := said; i < min(t.Paused, len(ms)); i++ {
		for _, p := range ms[i].Parts {
			if _, ok := p.(*llm.ToolCall); ok {
				half(p, false)
			}
		}
	}
	return out
}

// orphan reports that a part is the output of a call that nobody made.
func orphan(p llm.Part, asked map[string]bool) bool {
	r, ok := p.(*llm.ToolResult)
	return ok && !r.ProviderExecuted && !asked[r.ID]
}

// omitted is the text that stands in the place of media that the model can't be shown; empty: it can.
func (t Traits) omitted(m *llm.Media) string {
	switch {
	case isImage(m) && !t.Images:
		return imageOmittedText
	case isAudio(m) && !t.Audio:
		return audioOmittedText
	}
	return ""
}

func isImage(m *llm.Media) bool { return len(m.MediaType) > 6 && m.MediaType[:6] == "image/" }
func isAudio(m *llm.Media) bool { return len(m.MediaType) > 6 && m.MediaType[:6] == "audio/" }
