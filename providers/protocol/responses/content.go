package responses

import (
	"cmp"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type inputText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type inputImage struct {
	Type     string `json:"type"`
	FileID   string `json:"file_id,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

type inputFile struct {
	Type     string `json:"type"`
	FileID   string `json:"file_id,omitempty"`
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
	FileURL  string `json:"file_url,omitempty"`
}

type encryptedContent struct {
	Type             string `json:"type"`
	EncryptedContent string `json:"encrypted_content"`
}

func textContent(s string) inputText { return inputText{"input_text", s} }

// mediaMeta is a vendor's metadata for media that were uploaded before.
type mediaMeta struct {
	FileID string `json:"fileId"`
}

// mediaContent converts media. What the model does not support is replaced by a note. Anything that is neither an image nor audio
// is sent as a document.
func mediaContent(r *protocol.Request, m *llm.Media) (any, error) {
	var meta mediaMeta
	protocol.MetaOf(m.Metadata, r.Namespace, &meta)
	c := protocol.Content{Type: m.MediaType}
	if meta.FileID == "" {
		var err error
		if c, err = protocol.ContentOf(m); err != nil {
			return nil, err
		}
	}
	kind := protocol.Modality(c.Type)
	switch kind {
	case "image", "audio", "video":
	default:
		kind = "pdf"
	}
	if !r.Model.Takes(kind) || kind == "image" && r.Model.Compat.NoImages || kind == "audio" || kind == "video" {
		return textContent(r.LeaveOut(m, protocol.NotTaken)), nil
	}
	if kind == "image" {
		// The published type of a message's image has no default for the detail.
		image := inputImage{Type: "input_image", FileID: meta.FileID, ImageURL: c.URL, Detail: cmp.Or(m.Detail, "auto")}
		if len(c.Data) > 0 {
			image.ImageURL = protocol.DataURL(c.Type, c.Data)
		}
		return image, nil
	}
	f := inputFile{Type: "input_file", FileID: meta.FileID, FileURL: c.URL}
	if len(c.Data) > 0 {
		f.FileData, f.Filename = protocol.DataURL(c.Type, c.Data), cmp.Or(m.Filename, "document.pdf") // vendors determine the type from the name
	}
	return f, nil
}

// output converts the content of a result: to a string if it is all text, which every vendor supports, otherwise to a list.
func output(r *protocol.Request, content llm.Parts) (any, error) {
	var texts []string
	var list []any
	listed := false
	for _, p := range content {
		switch p := p.(type) {
		case *llm.Text:
			texts = append(texts, p.Text)
			list = append(list, textContent(p.Text))
		case *llm.Media:
			c, err := mediaContent(r, p)
			if err != nil {
				return nil, err
			}
			if note, left := c.(inputText); left {
				texts = append(texts, note.Text)
			} else {
				listed = true
			}
			list = append(list, c)
		case *llm.Sealed:
			listed = true
			list = append(list, encryptedContent{"encrypted_content", p.Data})
		}
	}
	if listed {
		return list, nil
	}
	return strings.Join(texts, "\n"), nil
}
