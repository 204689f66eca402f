// Package picture prepares image files for a model: it checks that they can be decoded and scales down large ones.
//
// It owns: the supported formats, the budgets, the new size, and which metadata is kept. It must not know: where the bytes come from,
// calls, or models.
//
// PNG, JPEG and WebP files within the budget are not changed. Scaled images keep their format, except WebP, for which there is no
// encoder: it becomes PNG, as does the first frame of a GIF. RGB colour profiles and EXIF data are kept.
//
// Start with [Prepare].
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/webp"
)

// ErrUndecodable is returned for data that is not an image in a supported format.
var ErrUndecodable = errors.New("invalid or unsupported image data")

const (
	// MaxBytes is the maximum size of a file.
	MaxBytes = 1 << 30
	// maxPixels limits the memory for decoding to about 400 MB. Even a small file can declare a huge size.
	maxPixels = 100_000_000

	jpegQuality = 85
)

// Picture is an image that was prepared for a model.
type Picture struct {
	Data          []byte
	MediaType     string
	Width, Height int
}

// format is a file format.
type format struct {
	mediaType string
	decode    func([]byte) (image.Image, error)
	config    func([]byte) (image.Config, error)
	metadata  func([]byte) metadata
	// resized is the media type of a scaled image.
	resized string
	// passThrough says that a file within the budget is not changed.
	passThrough bool
}

// formatOf detects the format by the first bytes.
func formatOf(head []byte) (format, bool) {
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case has("\x89PNG\r\n\x1a\n"):
		return format{"image/png", guarded(png.Decode), guarded(png.DecodeConfig), pngMetadata, "image/png", true}, true
	case has("\xff\xd8\xff"):
		return format{"image/jpeg", guarded(jpeg.Decode), guarded(jpeg.DecodeConfig), jpegMetadata, "image/jpeg", true}, true
	case has("RIFF") && len(head) >= 12 && string(head[8:12]) == "WEBP":
		return format{"image/webp", guarded(webp.Decode), guarded(webp.DecodeConfig), webpMetadata, "image/png", true}, true
	case has("GIF87a"), has("GIF89a"):
		return format{"image/gif", guarded(gif.Decode), guarded(gif.DecodeConfig), nil, "image/png", false}, true
	}
	return format{}, false
}

// Known reports whether a file that begins with head may be a supported image. 12 bytes are sufficient.
func Known(head []byte) bool {
	_, ok := formatOf(head)
	return ok
}

// Prepare checks an image and scales it to fit the budget. The error is [ErrUndecodable], or says that the image is too large.
func Prepare(data []byte, b Budget) (*Picture, error) {
	f, ok := formatOf(data)
	if !ok {
		return nil, ErrUndecodable
	}
	size, err := f.config(data)
	if err != nil || size.Width <= 0 || size.Height <= 0 {
		return nil, ErrUndecodable
	}
	if size.Width > maxPixels/size.Height {
		return nil, fmt.Errorf("%d x %d pixels are too many", size.Width, size.Height)
	}
	// Decode the image even if it is not changed, so that damaged files are not sent to the provider.
	img, err := f.decode(data)
	if err != nil {
		return nil, ErrUndecodable
	}
	p := &Picture{Data: data, MediaType: f.mediaType, Width: size.Width, Height: size.Height}
	w, h := Fit(size.Width, size.Height, b)
	same := w == size.Width && h == size.Height
	if same && f.passThrough {
		return p, nil
	}
	if !same {
		img = scale(img, w, h)
	}
	var meta metadata
	if f.metadata != nil {
		meta = f.metadata(data)
	}
	if p.Data, err = encode(img, f.resized, meta); err != nil {
		return nil, err
	}
	p.MediaType, p.Width, p.Height = f.resized, w, h
	return p, nil
}

func encode(img image.Image, mediaType string, meta metadata) ([]byte, error) {
	var buf bytes.Buffer
	if mediaType == "image/jpeg" {
		if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: jpegQuality}); err != nil {
			return nil, fmt.Errorf("encode jpeg: %w", err)
		}
		return meta.insertJPEG(buf.Bytes()), nil
	}
	if err := png.Encode(&buf, img); err != nil {
		return nil, fmt.Errorf("encode png: %w", err)
	}
	return meta.insertPNG(buf.Bytes()), nil
}
