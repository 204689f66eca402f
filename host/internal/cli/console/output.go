package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config/hint"
)

// Output is standard output. Most print calls ignore errors, so it keeps the first one: a command whose output was lost must not
// exit successfully.
type Output struct {
	*os.File
	mu  sync.Mutex
	err error
}

// Write writes p and keeps the first error.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = hint.With(fmt.Errorf("write the output: %w", err), "check whether the disk is full, or the reader has exited")
		}
	}
	return n, err
}

// WriteString is like Write. It overrides the file's method, which would bypass Write.
func (o *Output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// Lost returns the first write error, or nil.
func (o *Output) Lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// ReadText reads a text of at most limit bytes.
func ReadText(r io.Reader, limit int64) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return "", err
	case int64(len(b)) > limit:
		return "", fmt.Errorf("it has more than %d bytes", limit)
	case !utf8.Valid(b):
		return "", errors.New("it is not UTF-8")
	}
	return string(b), nil
}
