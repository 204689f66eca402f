package console

import (
	"fmt"
	"os"
	"sync"

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
