package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc"
)

// attachBytes is the size of the buffer of each output, like the default capacity of a pipe. When it is full, nothing more is
// received, and the process blocks as on a full pipe.
const attachBytes = 64 << 10

// stdinChunk is the maximum size of the input in one message.
const stdinChunk = 32 << 10

// attach opens the stream for the input and output of the process.
func (c *Cmd) attach(life context.Context) error {
	ctx, cancel := context.WithCancel(life)
	client, err := c.broker.client.Attach(ctx)
	if err == nil {
		err = client.Send(&gantryv1.AttachRequest{ProcessId: c.id})
	}
	if err != nil {
		cancel()
		if errors.Is(err, io.EOF) {
			_, err = client.Recv() // Send returns only io.EOF; Recv returns the status
		}
		return fmt.Errorf("attach: %w", err)
	}
	a := &attachment{stream: client, ctx: ctx, cancel: cancel, over: make(chan struct{}), stdout: newBuffer(attachBytes), stderr: newBuffer(attachBytes)}
	c.ends.stdout = a.stdout
	if c.Terminal == nil && !c.MergeStderr && !sameWriter(c.Stdout, c.Stderr) {
		c.ends.stderr = a.stderr
	}
	c.ends.stdin = attachInput{a}
	if c.Terminal == nil && c.Stdin == nil && c.wantStdin == nil && c.adopted == nil {
		c.ends.stdin = nil
		a.closeStdin()
	}
	c.attached = a
	return nil
}

type attachment struct {
	stream         grpc.BidiStreamingClient[gantryv1.AttachRequest, gantryv1.AttachResponse]
	ctx            context.Context // ends when the stream is no longer needed
	cancel         context.CancelFunc
	stdout, stderr *buffer
	over           chan struct{} // closed when everything has been received

	mu struct {
		sync.Mutex
		closed bool // stdin
	}
}

func (a *attachment) receive(c *Cmd) {
	defer close(a.over)
	defer a.cancel()
	for {
		msg, err := a.stream.Recv()
		if err != nil {
			if err == io.EOF || a.ctx.Err() != nil {
				err = nil
			}
			a.stdout.finish(err)
			a.stderr.finish(err)
			return
		}
		switch out := msg.GetOutput().(type) {
		case *gantryv1.AttachResponse_Stdout:
			_, _ = a.stdout.Write(out.Stdout) // fails if the reader has been closed; the rest is dropped
		case *gantryv1.AttachResponse_Stderr:
			if c.ends.stderr != nil {
				_, _ = a.stderr.Write(out.Stderr)
			} else {
				_, _ = a.stdout.Write(out.Stderr)
			}
		case *gantryv1.AttachResponse_Exited:
			c.resolve(exitOf(out.Exited), nil)
		}
	}
}

// finished reports whether everything has been received.
func (a *attachment) finished() bool {
	select {
	case <-a.over:
		return true
	default:
		return false
	}
}

func (a *attachment) closeStdin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.closed {
		return
	}
	a.mu.closed = true
	_ = a.stream.Send(&gantryv1.AttachRequest{CloseStdin: true})
}

// attachInput writes to stdin through the stream.
type attachInput struct{ a *attachment }

func (w attachInput) Write(p []byte) (int, error) {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	if w.a.mu.closed {
		return 0, io.ErrClosedPipe
	}
	for done := 0; ; {
		chunk := p[done:min(len(p), done+stdinChunk)]
		if err := w.a.stream.Send(&gantryv1.AttachRequest{Stdin: chunk}); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrClosedPipe
			}
			return done, err
		}
		if done += len(chunk); done == len(p) {
			return done, nil
		}
	}
}

func (w attachInput) Close() error {
	w.a.closeStdin()
	return nil
}

// buffer is a pipe in memory with a capacity of max bytes.
type buffer struct {
	mu     sync.Mutex
	cond   *sync.Cond
	max    int
	data   []byte
	err    error // set at the end of the data; io.EOF if it ended normally
	closed bool  // by the reader
}

func newBuffer(maxBytes int) *buffer {
	b := &buffer{max: maxBytes}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// Write implements [io.Writer]. It blocks while the buffer is full.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for done := 0; ; {
		if b.closed || b.err != nil {
			return done, io.ErrClosedPipe
		}
		if room := b.max - len(b.data); room > 0 {
			n := min(room, len(p)-done)
			b.data = append(b.data, p[done:done+n]...)
			done += n
			b.cond.Broadcast()
		}
		if done == len(p) {
			return done, nil
		}
		b.cond.Wait()
	}
}

// Read implements [io.Reader].
func (b *buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && b.err == nil && !b.closed {
		b.cond.Wait()
	}
	switch {
	case b.closed:
		return 0, io.ErrClosedPipe
	case len(b.data) == 0:
		return 0, b.err
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	b.cond.Broadcast()
	return n, nil
}

// finish ends the data, normally if err is nil.
func (b *buffer) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	if b.err == nil {
		b.err = err
	}
	b.cond.Broadcast()
}

// Close implements [io.Closer] for the reader.
func (b *buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.data = nil
	b.cond.Broadcast()
	return nil
}
