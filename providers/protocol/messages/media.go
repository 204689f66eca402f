package messages

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxImage bounds an image in base64. Larger ones the vendor refuses, after all of it was sent.
const maxImage = 8 << 20

// imageTypes are those that the vendor reads.
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

// media is the block of an image or a document. What this model or the vendor can't read becomes a note that something
// was left out; what nobody of the vendor's family could take is an error.
func (l *lowering) media(m *llm.Media) (any, error) {
	mediaType, src, err := mediaSource(m)
	if err != nil {
		return nil, err
	}
	kind, _, _ := strings.Cut(mediaType, "/")
	switch {
	case kind == "image":
		if l.Model.Compat.NoImages || !l.Model.Takes("image") {
			return l.omitted(m, "an image", "the model takes no images"), nil
		}
		if src.Type == "base64" && !slices.Contains(imageTypes, mediaType) {
			return l.omitted(m, "an image of the type "+mediaType, "the vendor reads jpeg, png, gif and webp"), nil
		}
		if len(src.Data) > maxImage {
			return nil, &llm.Error{
				Code: llm.ErrPayloadTooLarge, Next: "make the image smaller",
				Message: fmt.Sprintf("the image%s has %d bytes in base64, and the vendor takes %d", named(m), len(src.Data), maxImage),
			}
		}
		return &mediaBlock{Type: "image", Source: src}, nil
	case mediaType == "application/pdf":
		if !l.Model.Takes("pdf") {
			return l.omitted(m, "a document", "the model takes no PDF"), nil
		}
		return &mediaBlock{Type: "document", Source: src, Title: title(m.Filename)}, nil
	case kind == "text" && src.Type == "base64":
		text, err := base64.StdEncoding.DecodeString(src.Data)
		if err != nil {
			return nil, invalid("", "the document%s: %v", named(m), err)
		}
		src = source{Type: "text", MediaType: "text/plain", Data: strings.ToValidUTF8(string(text), "\uFFFD")}
		return &mediaBlock{Type: "document", Source: src, Title: title(m.Filename)}, nil
	}
	return nil, invalid("use a model with that modality", "media%s of the type %q: the format takes images, PDF and text", named(m), mediaType)
}

func named(m *llm.Media) string {
	if m.Filename == "" {
		return ""
	}
	return fmt.Sprintf(" %q", m.Filename)
}

func (l *lowering) omitted(m *llm.Media, what, why string) *textBlock {
	l.warning(what + named(m) + " is left out: " + why)
	return &textBlock{Type: "text", Text: "(" + what + named(m) + " was left out: " + why + ")"}
}

func mediaSource(m *llm.Media) (mediaType string, s source, err error) {
	mediaType, _, _ = strings.Cut(strings.ToLower(m.MediaType), ";")
	mediaType = strings.TrimSpace(mediaType)
	switch {
	case len(m.Data) > 0:
		s = source{Type: "base64", Data: base64.StdEncoding.EncodeToString(m.Data)}
	case strings.HasPrefix(m.URL, "data:"):
		own, data, err := dataURL(m.URL)
		if err != nil {
			return "", s, invalid("", "media%s: %v", named(m), err)
		}
		if mediaType == "" {
			mediaType = own
		}
		s = source{Type: "base64", Data: data}
	case strings.HasPrefix(m.URL, "https://"), strings.HasPrefix(m.URL, "http://"):
		return mediaType, source{Type: "url", URL: m.URL}, nil
	case m.URL != "":
		return "", s, invalid("use http or data", "media%s: the vendor reads no address of this kind", named(m))
	case m.Artifact != "":
		return "", s, invalid("load the artifact's content before the request is lowered", "media%s is a reference to stored content", named(m))
	default:
		return "", s, invalid("", "media%s is empty", named(m))
	}
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg"
	}
	s.MediaType = mediaType
	return mediaType, s, nil
}

// dataURL returns the content in base64.
func dataURL(s string) (mediaType, data string, err error) {
	head, data, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	if !ok {
		return "", "", fmt.Errorf("the data URL has no comma")
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	mediaType, _, _ = strings.Cut(strings.ToLower(head), ";")
	if isBase64 {
		return mediaType, data, nil
	}
	raw, err := url.PathUnescape(data)
	if err != nil {
		return "", "", fmt.Errorf("the data URL: %w", err)
	}
	return mediaType, base64.StdEncoding.EncodeToString([]byte(raw)), nil
}

// title makes a file's name one that the vendor takes: letters, digits, spaces, hyphens and brackets.
func title(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" -()[]", r):
			return r
		}
		return ' '
	}, name)
	return strings.Join(strings.Fields(clean), " ")
}
