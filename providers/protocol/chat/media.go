package chat

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// media lowers an image, a document or a recording. What the model does not take becomes a note in its place.
func (h *history) media(m *llm.Media) (part, error) {
	if len(m.Data) == 0 && m.URL == "" {
		return part{}, invalid(fmt.Sprintf("the content of a %s was not loaded", m.MediaType), "send its bytes or an address")
	}
	switch modality, _, _ := strings.Cut(m.MediaType, "/"); {
	case modality == "image":
		if h.r.Model.Compat.NoImages || !h.r.Model.Takes("image") {
			return h.omitted(m, "image"), nil
		}
		url := m.URL
		if len(m.Data) > 0 {
			url = dataURL(m)
		}
		return part{Type: "image_url", ImageURL: &imageURL{URL: url, Detail: closeness(m.Detail)}}, nil
	case m.MediaType == "application/pdf":
		if !h.r.Model.Takes("pdf") || len(m.Data) == 0 { // the format takes no addresses of documents
			return h.omitted(m, "document"), nil
		}
		return part{Type: "file", File: &file{Filename: cmp.Or(m.Filename, "document.pdf"), FileData: dataURL(m)}}, nil
	case modality == "audio":
		format := audioFormat(m.MediaType)
		if !h.r.Model.Takes("audio") || format == "" || len(m.Data) == 0 {
			return h.omitted(m, "recording"), nil
		}
		return part{Type: "input_audio", InputAudio: &audio{Data: m.Data, Format: format}}, nil
	}
	return h.omitted(m, m.MediaType), nil
}

// omitted tells the model that there was something, so that it does not speak of what it has not seen.
func (h *history) omitted(m *llm.Media, what string) part {
	if m.Filename != "" {
		what += " " + m.Filename
	}
	h.r.Warning(fmt.Sprintf("%s was left out: %s does not take it", what, h.r.Model.ID))
	return part{Type: "text", Text: "(" + what + " left out: you can't be shown it)"}
}

func dataURL(m *llm.Media) string {
	b := make([]byte, 0, len("data:;base64,")+len(m.MediaType)+base64.StdEncoding.EncodedLen(len(m.Data)))
	b = append(b, "data:"...)
	b = append(b, m.MediaType...)
	b = append(b, ";base64,"...)
	return string(base64.StdEncoding.AppendEncode(b, m.Data))
}

// closeness is how closely an image is looked at, as far as the format has a word for it.
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
