package chat

import (
	"cmp"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// media converts an image, a document or a recording. What the model does not support is replaced by a note.
func (h *history) media(m *llm.Media) (part, error) {
	c, err := protocol.ContentOf(m)
	if err != nil {
		return part{}, err
	}
	model := &h.r.Model
	switch protocol.Modality(c.Type) {
	case "image":
		if model.Compat.NoImages || !model.Takes("image") {
			break
		}
		url := c.URL
		if url == "" {
			url = protocol.DataURL(c.Type, c.Data)
		}
		return part{Type: "image_url", ImageURL: &imageURL{URL: url, Detail: closeness(m.Detail)}}, nil
	case "pdf":
		if !model.Takes("pdf") || c.URL != "" { // the format has no URLs of documents
			break
		}
		name := cmp.Or(m.Filename, "document.pdf")
		return part{Type: "file", File: &file{Filename: name, FileData: protocol.DataURL(c.Type, c.Data)}}, nil
	case "audio":
		format := audioFormat(c.Type)
		if !model.Takes("audio") || format == "" || c.URL != "" {
			break
		}
		return part{Type: "input_audio", InputAudio: &audio{Data: c.Data, Format: format}}, nil
	}
	return part{Type: "text", Text: h.r.LeaveOut(m, protocol.NotTaken)}, nil
}

// closeness returns the level of detail of an image, as far as the format supports it.
func closeness(d string) string {
	if d == "original" {
		return "high"
	}
	return d
}

func audioFormat(mediaType string) string {
	switch mediaType {
	case "audio/wav", "audio/x-wav", "audio/wave":
		return "wav"
	case "audio/mpeg", "audio/mp3":
		return "mp3"
	}
	return ""
}
