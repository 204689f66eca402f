package picture

import (
	"bytes"
	"fmt"
	"io"
)

// guarded converts panics of a decoder to errors. Some libraries panic on damaged files.
func guarded[T any](decode func(io.Reader) (T, error)) func([]byte) (T, error) {
	return func(data []byte) (out T, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("decode: %v", r)
			}
		}()
		return decode(bytes.NewReader(data))
	}
}
