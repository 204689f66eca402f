package protocol

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Content is the content of media: Data, or a URL.
type Content struct {
	Type string // in lower case, without parameters: "image/png"
	Data []byte
	URL  string
}

const loadIt = "send its bytes or an address"

// ContentOf returns the content of media, decoding data URLs. Media without content are an *[llm.Error].
func ContentOf(m *llm.Media) (Content, error) {
	c := Content{Type: mediaType(m.MediaType), Data: m.Data}
	switch {
	case len(m.Data) > 0:
	case m.Artifact != "":
		return c, Invalid(loadIt, "%s is a reference to stored content", describe(m))
	case strings.HasPrefix(m.URL, "data:"):
		own, data, err := parseDataURL(m.URL)
		if err != nil {
			return c, Invalid(loadIt, "%s: %v", describe(m), err)
		}
		if c.Data = data; c.Type == "" {
			c.Type = own
		}
		if len(data) == 0 {
			return c, Invalid(loadIt, "%s has no content", describe(m))
		}
	case m.URL == "":
		return c, Invalid(loadIt, "%s has no content", describe(m))
	default:
		c.URL = m.URL
	}
	return c, nil
}

func mediaType(s string) string {
	s, _, _ = strings.Cut(strings.ToLower(s), ";")
	if s = strings.TrimSpace(s); s == "image/jpg" {
		return "image/jpeg"
	}
	return s
}

// Modality returns the modality of a media type: "image", "audio", "video", "pdf", "text", or the type itself.
func Modality(mediaType string) string {
	switch kind, _, _ := strings.Cut(mediaType, "/"); {
	case mediaType == "application/pdf":
		return "pdf"
	case kind == "image", kind == "audio", kind == "video", kind == "text":
		return kind
	}
	return mediaType
}

// DataURL returns content as a data URL.
func DataURL(mediaType string, data []byte) string {
	b := make([]byte, 0, len("data:;base64,")+len(mediaType)+base64.StdEncoding.EncodedLen(len(data)))
	b = append(b, "data:"...)
	b = append(b, mediaType...)
	b = append(b, ";base64,"...)
	return string(base64.StdEncoding.AppendEncode(b, data))
}

type dataURLError string

func (e dataURLError) Error() string { return "its data URL " + string(e) }

func parseDataURL(s string) (own string, data []byte, err error) {
	head, payload, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	if !ok {
		return "", nil, dataURLError("has no comma")
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	if !isBase64 {
		text, err := url.PathUnescape(payload)
		if err != nil {
			return "", nil, dataURLError("contains an invalid escape")
		}
		return mediaType(head), []byte(text), nil
	}
	if data, err = base64.StdEncoding.DecodeString(payload); err != nil {
		return "", nil, dataURLError("is not in base64")
	}
	return mediaType(head), data, nil
}

// LeaveOut warns that media are not sent, and returns a note that replaces them, so that the model does not refer to content that
// it has not seen.
func (r *Request) LeaveOut(m *llm.Media, why string) (note string) {
	what := describe(m) + " was left out: " + why
	r.Warning(r.Model.ID + ": " + what)
	return "(" + what + ")"
}

// NotTaken is the reason for omitting media whose modality the model lacks.
const NotTaken = "the model does not take it"

func describe(m *llm.Media) string {
	own := mediaType(m.MediaType)
	if own == "" && strings.HasPrefix(m.URL, "data:") {
		head, _, _ := strings.Cut(strings.TrimPrefix(m.URL, "data:"), ",")
		own = mediaType(head)
	}
	what := "a file of the type " + own
	switch Modality(own) {
	case "":
		what = "a file"
	case "image":
		what = "an image"
	case "pdf":
		what = "a document"
	case "audio":
		what = "a recording"
	case "video":
		what = "a video"
	case "text":
		what = "a text"
	}
	if m.Filename != "" {
		what += ` "` + m.Filename + `"`
	}
	return what
}

// Title returns a file's name with only the characters that vendors accept in a document's name: letters, digits, spaces, hyphens
// and brackets. It may be empty.
func Title(filename string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" -()[]", r):
			return r
		}
		return ' '
	}, filename)
	return strings.Join(strings.Fields(clean), " ")
}
