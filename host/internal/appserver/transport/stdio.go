package transport

import (
	"context"
	"io"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// flushTime is how long a client that has left, or is ended, may take to read what was written to stdout.
const flushTime = time.Second

// stdio is the endpoint of the one client at the other end of stdin and stdout.
type stdio struct {
	in  io.Reader
	out io.Writer
	cfg Config
}

func (d *stdio) url() string { return DefaultURL }

func (d *stdio) refuse() {}

// run serves the client until it closes stdin.
//
// A read of a terminal or an inherited pipe cannot be interrupted, not even by closing the file, and neither can a write to a client
// that does not read. So two goroutines copy between the files and pipes that can be closed. They end with the files, at the latest with
// the process.
func (d *stdio) run(ctx, kill context.Context, handle Handler) error {
	in, fromClient := io.Pipe()
	toClient, out := io.Pipe()
	go func() { // ends with stdin
		_, err := io.Copy(fromClient, d.in)
		_ = fromClient.CloseWithError(err) // nil: io.EOF
	}()
	flushed := make(chan struct{})
	go func() { // ends with the stream, or with stdout
		defer close(flushed)
		_, err := io.Copy(d.out, toClient)
		_ = toClient.CloseWithError(err)
	}()
	serveStream(ctx, kill, rpc.Lines(in, out, pipes{in, out}), Peer{Kind: Stdio}, handle)
	bound := time.NewTimer(flushTime)
	defer bound.Stop()
	select {
	case <-flushed:
	case <-bound.C:
		d.cfg.Logger.Debug("the client did not read all messages", "waited", flushTime)
	}
	return nil
}

// pipes closes the ends of the pipes that a stream uses.
type pipes struct {
	in  *io.PipeReader
	out *io.PipeWriter
}

// Close implements [io.Closer]. Its errors are always nil.
func (p pipes) Close() error {
	_ = p.out.Close()
	return p.in.Close()
}
