package browserproc

import (
	"io"
	"os"
	"sync"
)

// LastingInput is the input of a browser, which outlives who writes to it: to close it would close it for the next process of the plugin, too.
// Who ends a browser kills it.
type LastingInput struct {
	w    io.Writer
	once sync.Once
	left chan struct{}
}

// Lasting returns the input of a browser whose Close leaves it open.
func Lasting(w io.Writer) *LastingInput { return &LastingInput{w: w, left: make(chan struct{})} }

// Write implements io.Writer. It must not be called concurrently.
func (l *LastingInput) Write(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	go func() { // ends when the browser reads, or has ended
		n, err := l.w.Write(b)
		written <- result{n, err}
	}()
	select {
	case r := <-written:
		return r.n, r.err
	case <-l.left:
		return 0, os.ErrClosed
	}
}

// Close implements io.Closer. It ends a Write that a browser which reads nothing holds up.
func (l *LastingInput) Close() error {
	l.once.Do(func() { close(l.left) })
	return nil
}
