// Package picture reads images that a user attaches.
//
// It owns which images are accepted, and how large they may be. It does not know where they come from or who sees them.
//
// Start with [Read] and [Check].
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"os"

	"github.com/gantry-agent/gantry/config/hint"
)

// MaxTotal limits the total size of the images of a task, in bytes: half of what fits into a message to a provider, which leaves room for
// the rest of the conversation.
const MaxTotal = 8 << 20

// maxPixels limits the memory for decoding an image to about 400 MB. A small file can claim any size.
const maxPixels = 100_000_000

// Read reads and checks an image of at most limit bytes. The type is determined from the content.
func Read(path string, limit int) (data []byte, mediaType string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", reasonOf(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, "", hint.New("it is a folder", "specify a file")
	}
	if data, err = io.ReadAll(io.LimitReader(f, int64(limit)+1)); err != nil {
		return nil, "", reasonOf(err)
	}
	if len(data) > limit {
		return nil, "", hint.With(fmt.Errorf("the images of a task must not exceed %d MiB in total", MaxTotal>>20), "make it smaller")
	}
	mediaType, err = Check(data)
	return data, mediaType, err
}

// reasonOf returns why a file cannot be read, without its name.
func reasonOf(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return hint.New("no such file", "check the path, which is relative to the current folder")
	}
	return hint.With(withoutPath(err), "check its permissions")
}

// Check returns the type of an image. It decodes the whole image, so that damaged images never reach the provider.
func Check(data []byte) (mediaType string, err error) {
	var config func(io.Reader) (image.Config, error)
	var decode func(io.Reader) (image.Image, error)
	has := func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) }
	switch {
	case len(data) == 0:
		return "", hint.New("it is empty", "specify another file")
	case has("\x89PNG\r\n\x1a\n"):
		mediaType, config, decode = "image/png", png.DecodeConfig, png.Decode
	case has("\xff\xd8\xff"):
		mediaType, config, decode = "image/jpeg", jpeg.DecodeConfig, jpeg.Decode
	case has("GIF87a"), has("GIF89a"):
		mediaType, config, decode = "image/gif", gif.DecodeConfig, gif.Decode
	case has("RIFF") && len(data) >= 12 && string(data[8:12]) == "WEBP":
		return "image/webp", checkRIFF(data)
	default:
		return "", hint.New("it is not a PNG, JPEG, GIF or WebP image", "convert it to one of them")
	}
	damaged := func(err error) error {
		return hint.With(fmt.Errorf("can't decode it (%v)", err), "check whether it is damaged or truncated")
	}
	size, err := config(bytes.NewReader(data))
	if err != nil {
		return "", damaged(err)
	}
	if size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return "", hint.With(fmt.Errorf("%d x %d pixels are too many", size.Width, size.Height), "make it smaller")
	}
	if _, err := decode(bytes.NewReader(data)); err != nil {
		return "", damaged(err)
	}
	return mediaType, nil
}

// checkRIFF checks that a WebP file has the length that its header states. No decoder is available.
func checkRIFF(data []byte) error {
	said := int64(data[4]) | int64(data[5])<<8 | int64(data[6])<<16 | int64(data[7])<<24
	if len(data) < 16 || said+8 > int64(len(data)) {
		return hint.With(fmt.Errorf("it has only %d of %d bytes", len(data), said+8), "check whether it is truncated")
	}
	return nil
}

// withoutPath removes the file name from an error.
func withoutPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
