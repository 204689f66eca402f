package history

import "github.com/gantry-agent/gantry/sdk/llm"

// Traits are the abilities of a model that decide what it is shown.
type Traits struct {
	Images bool
	Audio  bool
}

// Texts that stand in the place of what a model can't be shown.
const (
	abortedText      = "aborted"
	imageOmittedText = "image content omitted because you do not support image input"
	audioOmittedText = "audio content omitted because you do not support audio input"
)

// ForPrompt returns the messages for a request. The stored history stays as it is; where nothing has to change, the
// result shares its messages. A call without an output gets the output "aborted" directly behind it, an output without
// a call is left out, and media that the model can't take become a line of text.
func (h *History) ForPrompt(t Traits) []llm.Message {
	left := answers(h.messages)
	asked := map[string]bool{}
	for _, c := range calls(h.messages) {
		asked[c.ID] = true
	}
	out := make([]llm.Message, 0, len(h.messages)+2)
	for _, m := range h.messages {
		var missing []llm.Part
		parts := m.Parts
		for i, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				if !p.ProviderExecuted && !left.take(p.ID) {
					missing = append(missing, &llm.ToolResult{
						ID: p.ID, Name: p.Name, Namespace: p.Namespace, Freeform: p.Freeform, IsError: true,
						Content: llm.Parts{&llm.Text{Text: abortedText}},
					})
				}
			case *llm.ToolResult:
				if !p.ProviderExecuted && !asked[p.ID] {
					parts = replace(parts, m.Parts, i, nil)
				} else if content := t.visible(p.Content); content != nil {
					r := *p
					r.Content = content
					parts = replace(parts, m.Parts, i, &r)
				}
			case *llm.Media:
				if shown := t.visible(llm.Parts{p}); shown != nil {
					parts = replace(parts, m.Parts, i, shown[0])
				}
			}
		}
		if parts = dropNil(parts); len(parts) > 0 {
			m.Parts = parts
			out = append(out, m)
		}
		if len(missing) > 0 {
			out = append(out, llm.Message{Role: llm.RoleTool, Parts: missing})
		}
	}
	return out
}

// replace sets part i, copying the original slice on the first change.
func replace(parts, original []llm.Part, i int, p llm.Part) []llm.Part {
	if len(parts) > 0 && len(original) > 0 && &parts[0] == &original[0] {
		parts = append([]llm.Part(nil), original...)
	}
	parts[i] = p
	return parts
}

func dropNil(parts []llm.Part) []llm.Part {
	for _, p := range parts {
		if p == nil {
			out := make([]llm.Part, 0, len(parts)-1)
			for _, p := range parts {
				if p != nil {
					out = append(out, p)
				}
			}
			return out
		}
	}
	return parts
}

// visible returns content with media replaced by text where the model can't take them, or nil where nothing changes.
func (t Traits) visible(content llm.Parts) llm.Parts {
	var out llm.Parts
	for i, p := range content {
		m, ok := p.(*llm.Media)
		if !ok {
			continue
		}
		var text string
		switch {
		case isImage(m) && !t.Images:
			text = imageOmittedText
		case isAudio(m) && !t.Audio:
			text = audioOmittedText
		default:
			continue
		}
		if out == nil {
			out = append(llm.Parts(nil), content...)
		}
		out[i] = &llm.Text{Text: text}
	}
	return out
}

func isImage(m *llm.Media) bool { return len(m.MediaType) > 6 && m.MediaType[:6] == "image/" }
func isAudio(m *llm.Media) bool { return len(m.MediaType) > 6 && m.MediaType[:6] == "audio/" }
