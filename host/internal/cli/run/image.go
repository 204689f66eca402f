package run

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
	"path/filepath"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Bounds of the images of one task.
const (
	// maxImages is what they may hold together: as for the text, half of what a message to a provider holds.
	maxImages = maxTask
	// maxPixels bounds the memory that looking at one takes, to about 400 MB. Small files can claim any size.
	maxPixels = 100_000_000
)

// readImages attaches images. One that the model could not look at ends the command before anything is begun.
func readImages(paths []string) ([]llm.Part, error) {
	var parts []llm.Part
	left := maxImages
	for _, path := range paths {
		data, mediaType, err := readImage(path, left)
		if err != nil {
			return nil, console.Usage("the image %s can't be attached: %w", path, err)
		}
		left -= len(data)
		parts = append(parts, &llm.Media{MediaType: mediaType, Data: data, Filename: filepath.Base(path)})
	}
	return parts, nil
}

// readImage reads one image of at most this many bytes, and sees that it can be decoded. Its content says what it is.
func readImage(path string, most int) (data []byte, mediaType string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", reasonOf(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, "", hint.New("it is a folder", "specify a file")
	}
	if data, err = io.ReadAll(io.LimitReader(f, int64(most)+1)); err != nil {
		return nil, "", reasonOf(err)
	}
	if len(data) > most {
		return nil, "", hint.With(fmt.Errorf("the images of a task must not exceed %d MiB in total", maxImages>>20), "make it smaller")
	}
	mediaType, err = checkImage(data)
	return data, mediaType, err
}

// reasonOf is why a file can't be read, without its name, which is told anyway.
func reasonOf(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return hint.New("no such file", "check the path, which is relative to the current folder")
	}
	return hint.With(console.PathReason(err), "check its permissions")
}

// checkImage tells what an image is. Decoding all of it is what keeps a damaged one from the model's provider.
func checkImage(data []byte) (mediaType string, err error) {
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

// checkRIFF sees that a WebP is as long as its head says. Nothing here can decode it.
func checkRIFF(data []byte) error {
	said := int64(data[4]) | int64(data[5])<<8 | int64(data[6])<<16 | int64(data[7])<<24
	if len(data) < 16 || said+8 > int64(len(data)) {
		return hint.With(fmt.Errorf("it has only %d of %d bytes", len(data), said+8), "check whether it is truncated")
	}
	return nil
}
