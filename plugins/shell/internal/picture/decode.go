package picture

import (
	"bytes"
	"fmt"
	"io"
)

// guarded makes a panic of a library's decoder an error: some are known to panic on damaged files.
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
