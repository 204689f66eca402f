package run

import (
	"bytes"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// drawn returns a small image of a format.
func drawn(t *testing.T, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	img := image.NewGray(image.Rect(0, 0, 40, 40))
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, img)
	case "jpeg":
		err = jpeg.Encode(&b, img, nil)
	case "gif":
		err = gif.Encode(&b, img, nil)
	case "webp": // nothing here can write one: a head and as many bytes as it says
		b.WriteString("RIFF\x0c\x00\x00\x00WEBPVP8L\x00\x00\x00\x00")
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadImages(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The content counts, whatever the name says.
	good := []string{
		file("a.png", drawn(t, "png")), file("b.png", drawn(t, "jpeg")), file("c", drawn(t, "gif")), file("d.txt", drawn(t, "webp")),
	}
	parts, err := readImages(good)
	if err != nil || len(parts) != len(good) {
		t.Fatalf("%d images, %v", len(parts), err)
	}
	for i, want := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		m := parts[i].(*llm.Media)
		if m.MediaType != want || m.Filename != filepath.Base(good[i]) || len(m.Data) == 0 {
			t.Errorf("%s is a %s named %q with %d bytes", good[i], m.MediaType, m.Filename, len(m.Data))
		}
	}

	half := func(format string) []byte { b := drawn(t, format); return b[:len(b)*3/4] }
	huge := drawn(t, "png")
	copy(huge[16:], "\x00\x0f\x00\x00\x00\x0f\x00\x00") // claims a million times a million pixels
	for _, tc := range []struct {
		name, path, want string
	}{
		{"missing", filepath.Join(dir, "none.png"), "no such file"},
		{"folder", dir, "it is a folder"},
		{"empty", file("empty.png", nil), "it is empty"},
		{"text", file("text.png", []byte("hello")), "it is not a PNG, JPEG, GIF or WebP image"},
		{"truncated", file("half.png", half("png")), "can't decode it"},
		{"truncated", file("half.jpg", half("jpeg")), "can't decode it"},
		{"truncated", file("half.gif", half("gif")), "can't decode it"},
		{"truncated", file("half.webp", half("webp")), "it has"},
		{"damaged head", file("head.png", drawn(t, "png")[:10]), "can't decode it"},
		{"claims to be large", file("huge.png", huge), ""},
		{"too large", file("large.png", append(drawn(t, "png"), make([]byte, picture.MaxTotal)...)), "the images of a task must not exceed 8 MiB in total"},
		{"without an end", "/dev/zero", "the images of a task must not exceed 8 MiB in total"},
	} {
		parts, err := readImages([]string{good[0], tc.path})
		u, ok := errors.AsType[console.UsageError](err)
		if !ok || !strings.Contains(u.Text, tc.want) || !strings.Contains(u.Text, tc.path) || u.Next == "" || parts != nil {
			t.Errorf("%s: %v, %+v, want a usage error that names %s and says %q", tc.name, parts, err, tc.path, tc.want)
		}
	}
	// Each is small enough, all of them are not.
	large := file("5MiB.png", append(drawn(t, "png"), make([]byte, 5<<20)...))
	if _, err := readImages([]string{large, large}); err == nil || !strings.Contains(err.Error(), "in total") {
		t.Errorf("two images of 5 MiB: %v", err)
	}
}
