package console

import (
	"fmt"
	"os"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
)

// Output is standard output. Most of what is printed does not look at errors; the first one is kept, so that a command
// whose output was lost does not end as if it had not.
type Output struct {
	*os.File
	mu  sync.Mutex
	err error
}

// Write writes and keeps the error.
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

// WriteString does the same; the file's own would not come by here.
func (o *Output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// Lost is why output was lost; nil: none was.
func (o *Output) Lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
