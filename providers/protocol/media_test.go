package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestContent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		media llm.Media
		want  protocol.Content
	}{
		{"bytes", llm.Media{MediaType: "image/png", Data: []byte("abc")}, protocol.Content{Type: "image/png", Data: []byte("abc")}},
		{"a type by another name", llm.Media{MediaType: " image/JPG; q=1", Data: []byte("a")}, protocol.Content{Type: "image/jpeg", Data: []byte("a")}},
		{"an address", llm.Media{MediaType: "image/png", URL: "https://h/x"}, protocol.Content{Type: "image/png", URL: "https://h/x"}},
		{"an address that holds it", llm.Media{URL: "data:image/webp;base64,YWJj"}, protocol.Content{Type: "image/webp", Data: []byte("abc")}},
		{"the same as text", llm.Media{URL: "data:Image/GIF;x=y,a%62c"}, protocol.Content{Type: "image/gif", Data: []byte("abc")}},
		{"a type of its own", llm.Media{MediaType: "image/png", URL: "data:x/y;base64,YQ=="}, protocol.Content{Type: "image/png", Data: []byte("a")}},
	} {
		got, err := protocol.ContentOf(&tt.media)
		if err != nil || got.Type != tt.want.Type || string(got.Data) != string(tt.want.Data) || got.URL != tt.want.URL {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		media llm.Media
		want  string
	}{
		{llm.Media{MediaType: "image/png", Artifact: "abc", Filename: "x.png"}, `an image "x.png" is a reference to stored content`},
		{llm.Media{MediaType: "application/pdf"}, "a document has no content"},
		{llm.Media{URL: "data:video/mp4"}, "a video: its data URL has no comma"},
		{llm.Media{URL: "data:audio/wav;base64,?"}, "a recording: its data URL is not in base64"},
		{llm.Media{URL: "data:text/plain,%zz"}, "a text: its data URL contains an invalid escape"},
		{llm.Media{URL: "data:,"}, "a file has no content"},
	} {
		_, err := protocol.ContentOf(&tt.media)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Code != llm.ErrInvalidRequest || e.Message != tt.want {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func TestDataURLsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
		got, err := protocol.ContentOf(&llm.Media{URL: protocol.DataURL("application/pdf", data)})
		if err != nil || string(got.Data) != string(data) || got.Type != "application/pdf" {
			t.Fatalf("read %+v, %v", got, err)
		}
	})
}

func TestModality(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string]string{
		"image/png": "image", "application/pdf": "pdf", "audio/wav": "audio", "video/mp4": "video", "text/markdown": "text",
		"application/zip": "application/zip",
	} {
		if got := protocol.Modality(mediaType); got != want {
			t.Errorf("%s is %s, want %s", mediaType, got, want)
		}
	}
}

func TestNotesAboutMedia(t *testing.T) {
	t.Parallel()
	var warned []string
	r := offering()
	r.Warn = func(s string) { warned = append(warned, s) }
	note := r.LeaveOut(&llm.Media{MediaType: "image/bmp", Filename: "a.bmp"}, protocol.NotTaken)
	if want := `(an image "a.bmp" was left out: the model does not take it)`; note != want {
		t.Errorf("note %s, want %s", note, want)
	}
	if want := `m: an image "a.bmp" was left out: the model does not take it`; strings.Join(warned, "\n") != want {
		t.Errorf("warnings %q, want %s", warned, want)
	}
	if note := r.LeaveOut(&llm.Media{MediaType: "application/zip"}, "why"); note != "(a file of the type application/zip was left out: why)" {
		t.Errorf("note %s", note)
	}
}

func FuzzDataURL(f *testing.F) {
	f.Add("data:image/png;base64,YWJj")
	f.Add("data:,%zz")
	f.Fuzz(func(t *testing.T, url string) {
		if c, err := protocol.ContentOf(&llm.Media{URL: url}); err == nil && len(c.Data) == 0 && c.URL == "" {
			t.Errorf("%q has no content and no error", url)
		}
	})
}
