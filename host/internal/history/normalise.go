package history

import (
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Traits are the properties of a model that decide which content it is sent.
type Traits struct {
	Images bool
	Audio  bool
	// Namespace is the key of the metadata that the model's provider wants back; empty: none.
	Namespace string
	// Paused is the number of messages at which the provider paused its answer, which the next request continues; 0: it did not.
	Paused int
	// PausedWith is the metadata of that answer as a whole. The provider needs it to continue.
	PausedWith llm.Metadata
}

// TraitsOf returns the traits of a model row.
func TraitsOf(row llm.ModelRow) Traits {
	return Traits{
		Images: slices.Contains(row.InputModalities, "image"), Audio: slices.Contains(row.InputModalities, "audio"),
		Namespace: row.MetadataNamespace,
	}
}

// Texts that replace content that a model can't be sent.
const (
	abortedText      = "aborted"
	imageOmittedText = "image content omitted because you do not support image input"
	audioOmittedText = "audio content omitted because you do not support audio input"
	sealedOmitText   = "encrypted content omitted because only models of another vendor can read it"
)

// ForPrompt returns the messages for a request. The history does not change, and the result shares messages that need no change. A
// call without an output gets the output "aborted" right after it; an output without a call is left out; media that the model does
// not support become a line of text. Content that only another vendor can read is removed: metadata of other namespaces and their
// reasoning. Calls that another vendor ran become text. Calls that the model's own vendor ran are left out without their result,
// and results without their call.
func (h *History) ForPrompt(t Traits) []llm.Message {
	left := answers(h.messages)
	unpairedHosted := t.unpairedHosted(h.messages)
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
			alone = alone || unpairedHosted[p] || isOrphan(p, asked)
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
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool { return unpairedHosted[p] || isOrphan(p, asked) })
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

// unpairedHosted returns the calls without a result, and the results without a call, of tools that the model's vendor ran. A broken stream
// leaves them, and the vendor refuses one without the other. It accepts the calls of an answer that it has paused, as long as the
// user has said nothing since.
func (t Traits) unpairedHosted(ms []llm.Message) map[llm.Part]bool {
	var out map[llm.Part]bool // allocated when needed: most threads have none
	half := func(p llm.Part, is bool) {
		if is && out == nil {
			out = map[llm.Part]bool{}
		}
		if out != nil {
			out[p] = is
		}
	}
	open := map[string][]llm.Part{}
	said := 0 // index after the user's last message
	for i, m := range ms {
		if m.Role == llm.RoleUser {
			said = i + 1
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				if p.ProviderExecuted && t.isOwn(p.Metadata) {
					open[p.ID] = append(open[p.ID], p)
					half(p, true)
				}
			case *llm.ToolResult:
				switch calls := open[p.ID]; {
				case !p.ProviderExecuted || !t.isOwn(p.Metadata):
				case len(calls) == 0:
					half(p, !p.Search) // the result of a vendor's search has no call
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

// isOrphan reports whether a part is an output without a call.
func isOrphan(p llm.Part, asked map[string]bool) bool {
	r, ok := p.(*llm.ToolResult)
	return ok && !r.ProviderExecuted && !asked[r.ID]
}

// omitted returns the text that replaces media that the model does not support; empty: it supports them.
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
