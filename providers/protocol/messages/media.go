package messages

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxImage limits a base64 image. The vendor rejects larger ones, but only after receiving the whole request.
const maxImage = 8 << 20

// imageTypes are the image types that the vendor supports.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

type mediaBlock struct {
	Type   string `json:"type"` // "image" or "document"
	Source source `json:"source"`
	Title  string `json:"title,omitempty"`
	cached
}

type source struct {
	Type      string `json:"type"` // "base64", "url" or "text"
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// media returns the block of an image or document. What the model or vendor does not support is replaced by a note; a type that
// none of the vendor's models supports is an error.
func (l *lowering) media(m *llm.Media) (any, error) {
	c, err := protocol.ContentOf(m)
	if err != nil {
		return nil, err
	}
	if c.URL != "" && !strings.HasPrefix(c.URL, "https://") && !strings.HasPrefix(c.URL, "http://") {
		return nil, protocol.Invalid("use http or data", "media%s: the vendor supports no addresses of this kind", named(m))
	}
	note := func(why string) (any, error) { return &textBlock{Type: "text", Text: l.LeaveOut(m, why)}, nil }
	switch protocol.Modality(c.Type) {
	case "image":
		switch src := sourceOf(c); {
		case l.Model.Compat.NoImages || !l.Model.Takes("image"):
			return note("the model takes no images")
		case c.URL == "" && !slices.Contains(imageTypes, c.Type):
			return note("the vendor reads jpeg, png, gif and webp, and no " + c.Type)
		case len(src.Data) > maxImage:
			return nil, &llm.Error{
				Code: llm.ErrPayloadTooLarge, Next: "make the image smaller",
				Message: fmt.Sprintf("the image%s has %d bytes in base64, and the vendor's maximum is %d", named(m), len(src.Data), maxImage),
			}
		default:
			return &mediaBlock{Type: "image", Source: src}, nil
		}
	case "pdf":
		if !l.Model.Takes("pdf") {
			return note("the model takes no PDF")
		}
		return &mediaBlock{Type: "document", Source: sourceOf(c), Title: protocol.Title(m.Filename)}, nil
	case "text":
		if c.URL != "" {
			break
		}
		src := source{Type: "text", MediaType: "text/plain", Data: strings.ToValidUTF8(string(c.Data), "\uFFFD")}
		return &mediaBlock{Type: "document", Source: src, Title: protocol.Title(m.Filename)}, nil
	}
	return nil, protocol.Invalid("use a model with that modality",
		"media%s of the type %q: the format takes images, PDF and text", named(m), c.Type)
}

func named(m *llm.Media) string {
	if m.Filename == "" {
		return ""
	}
	return fmt.Sprintf(" %q", m.Filename)
}

func sourceOf(c protocol.Content) source {
	if c.URL != "" {
		return source{Type: "url", URL: c.URL}
	}
	return source{Type: "base64", MediaType: c.Type, Data: base64.StdEncoding.EncodeToString(c.Data)}
}
