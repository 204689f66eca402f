package picture

import (
	"bytes"
	"fmt"
	"image"
	"io"
)

// decoder wraps a decoder of a library, which are known to panic on some damaged files.
func decoder(decode func(io.Reader) (image.Image, error)) func([]byte) (image.Image, error) {
	return func(data []byte) (img image.Image, err error) {
		defer func() {
			if r := recover(); r != nil {
				img, err = nil, fmt.Errorf("decode: %v", r)
			}
		}()
		return decode(bytes.NewReader(data))
	}
}

func configer(config func(io.Reader) (image.Config, error)) func([]byte) (image.Config, error) {
	return func(data []byte) (c image.Config, err error) {
		defer func() {
			if r := recover(); r != nil {
				c, err = image.Config{}, fmt.Errorf("decode: %v", r)
			}
		}()
		return config(bytes.NewReader(data))
	}
}
