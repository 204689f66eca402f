//go:build unix

package tools_test

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func pngOf(t *testing.T, w, h int) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestViewImage(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "small.png", pngOf(t, 10, 10))
	put(t, r.cwd, "wide.png", pngOf(t, 4000, 2000))
	var b bytes.Buffer
	if err := gif.Encode(&b, image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.Black}), nil); err != nil {
		t.Fatal(err)
	}
	put(t, r.cwd, "dot.gif", b.String())
	put(t, r.cwd, "text", "hello, world\n")
	put(t, r.cwd, "i.bmp", "BM"+strings.Repeat("\x00", 60))
	for _, tt := range []struct {
		args   object
		detail string
		w, h   int
		same   bool
		err    string
	}{
		{args: object{"path": "small.png"}, detail: "high", w: 10, h: 10, same: true},
		{args: object{"path": filepath.Join(r.cwd, "small.png"), "detail": nil}, detail: "high", w: 10, h: 10, same: true},
		{args: object{"path": "wide.png"}, detail: "high", w: 2048, h: 1024},
		{args: object{"path": "wide.png", "detail": "high"}, detail: "high", w: 2048, h: 1024},
		{args: object{"path": "wide.png", "detail": "original"}, detail: "original", w: 4000, h: 2000, same: true},
		{args: object{"path": "dot.gif"}, detail: "high", w: 1, h: 1},
		{args: object{"path": "text"}, err: "unable to process image: invalid or unsupported image data"},
		{args: object{"path": "i.bmp"}, err: "unable to process image: invalid or unsupported image data"},
		{args: object{"path": "missing.png"}, err: "unable to locate image at `{cwd}/missing.png`: No such file or directory (os error 2)"},
		{args: object{"path": "."}, err: "image path `{cwd}` is not a file"},
	} {
		a := r.call("view_image", tt.args)
		if tt.err != "" {
			if want := strings.ReplaceAll(tt.err, "{cwd}", r.cwd); a.text() != want || !a.IsError {
				t.Errorf("%v: %q, want %q", tt.args, a.text(), want)
			}
			continue
		}
		media, ok := a.Parts[0].(*contract.MediaPart)
		if !ok || len(a.Parts) != 1 || media.MediaType != "image/png" || media.Detail != tt.detail {
			t.Errorf("%v: parts = %+v", tt.args, a.Parts)
			continue
		}
		c, err := png.DecodeConfig(bytes.NewReader(media.Data))
		if err != nil || c.Width != tt.w || c.Height != tt.h {
			t.Errorf("%v: %dx%d, %v", tt.args, c.Width, c.Height, err)
		}
		file, err := os.ReadFile(a.Item.(*contract.ImageItem).Path)
		if err != nil || bytes.Equal(file, media.Data) != tt.same {
			t.Errorf("%v: unchanged %v, want %v (%v)", tt.args, !tt.same, tt.same, err)
		}
	}
	for _, s := range r.host.Spawned() {
		if !s.GetReadOnly() {
			t.Errorf("an image was read by a process that may write: %v", s)
		}
	}
}

func TestAssessImage(t *testing.T) {
	r := newRig(t, rigOptions{})
	inside := r.assess("view_image", object{"path": "sub/../x.png"})
	if !inside.ReadOnly || len(inside.Effects) != 0 || inside.Item.(*contract.ImageItem).Path != filepath.Join(r.cwd, "x.png") {
		t.Errorf("inside: %+v", inside)
	}
	outside := r.assess("view_image", object{"path": "../x.png"})
	want := filepath.Join(filepath.Dir(r.cwd), "x.png")
	if e, ok := outside.Effects[0].(contract.ReadEffect); !ok || !outside.ReadOnly || e.Paths[0] != want {
		t.Errorf("outside: %+v", outside)
	}
}

func TestImageForATextModel(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.traits = nil
	a := r.call("view_image", object{"path": "x.png"})
	if want := "view_image is not allowed because you do not support image inputs"; a.text() != want || !a.IsError {
		t.Errorf("text = %q, want %q", a.text(), want)
	}
}
