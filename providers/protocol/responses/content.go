package responses

import (
	"encoding/base64"
	"fmt"
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

func textContent(s string) inputText { return inputText{"input_text", s} }

// mediaMeta is what a vendor's own data on media says: the content was uploaded before.
type mediaMeta struct {
	FileID string `json:"fileId"`
}

// mediaContent lowers media. What the model does not take becomes a note, so that it knows that something was there.
func mediaContent(r *protocol.Request, m *llm.Media) (any, error) {
	kind := modality(m.MediaType)
	if !r.Model.Takes(kind) || kind == "image" && r.Model.Compat.NoImages || kind == "audio" || kind == "video" {
		r.Warning(fmt.Sprintf("%s left out: model %q does not take it", describe(kind, m), r.Model.ID))
		return textContent("(" + describe(kind, m) + " was left out: this model can't take it)"), nil
	}
	var meta mediaMeta
	protocol.MetaOf(m.Metadata, r.Namespace, &meta)
	url := m.URL
	switch {
	case meta.FileID != "":
		url = ""
	case len(m.Data) > 0:
		url = "data:" + m.MediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
	case url == "" && m.Artifact != "":
		return nil, refused("", "%s is given by reference: its content must be fetched before the request is made", describe(kind, m))
	case url == "":
		return nil, refused("", "%s has neither content nor address", describe(kind, m))
	}
	if kind == "image" {
		return inputImage{Type: "input_image", FileID: meta.FileID, ImageURL: url, Detail: m.Detail}, nil
	}
	f := inputFile{Type: "input_file", FileID: meta.FileID}
	switch {
	case f.FileID != "":
	case strings.HasPrefix(url, "data:"):
		f.FileData, f.Filename = url, m.Filename
		if f.Filename == "" {
			f.Filename = "document.pdf" // vendors go by the name
		}
	default:
		f.FileURL = url
	}
	return f, nil
}

// modality is the word of [protocol.Model] for a media type. All that is neither picture nor sound goes the way of
// documents.
func modality(mediaType string) string {
	major, _, _ := strings.Cut(mediaType, "/")
	switch major {
	case "image", "audio", "video":
		return major
	}
	return "pdf"
}

func describe(kind string, m *llm.Media) string {
	article := "a "
	switch kind {
	case "image":
		article = "an "
	case "audio":
		article = ""
	case "pdf":
		kind = "document"
	}
	if m.Filename != "" {
		return fmt.Sprintf("%s%s (%s)", article, kind, m.Filename)
	}
	return article + kind
}

// output lowers what a tool gave: a plain string where it is all text, which every vendor takes, else a list.
func output(r *protocol.Request, content llm.Parts) (any, error) {
	var texts []string
	var list []any
	media := false
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
				media = true
			}
			list = append(list, c)
		}
	}
	if media {
		return list, nil
	}
	return strings.Join(texts, "\n"), nil
}
