package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// connectTimeout bounds the way of the descriptors: they are on this machine and ready when Spawn has answered.
const connectTimeout = 5 * time.Second

// connect gets hold of the process's descriptors or of a stream in their place. life ends when Wait is done.
func (c *Cmd) connect(life context.Context, resp *gantryv1.SpawnResponse) error {
	if c.broker.socket != "" && resp.GetDescriptorToken() != "" {
		ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
		defer cancel()
		names := resp.GetDescriptors()
		files, err := wire.ReceiveDescriptors(ctx, c.broker.socket, resp.GetDescriptorToken(), len(names))
		if err != nil {
			return err
		}
		if err := c.ends.adopt(names, files); err != nil {
			return err
		}
		if f := c.ends.memory; f != nil {
			c.ends.memory = nil
			c.memory, err = mapMemory(f)
			if err = errors.Join(err, f.Close()); err != nil {
				c.ends.close()
				return err
			}
		}
		if c.ends.stdin != nil && c.ends.terminal == nil && c.Session {
			c.ends.stdin = &sessionInput{WriteCloser: c.ends.stdin, cmd: c}
		}
	} else if err := c.attach(life); err != nil {
		return err
	}
	rest := int64(pipeBytes)
	if c.attached != nil {
		rest = attachedBytes
	}
	for _, r := range []io.ReadCloser{c.ends.stdout, c.ends.stderr} {
		if r != nil {
			c.streams = append(c.streams, newStream(r, rest))
		}
	}
	if (c.Stdin != nil || c.wantStdin != nil) && c.ends.stdin == nil {
		c.ends.close()
		return errors.New("the host gave no stdin")
	}
	if c.ends.stdout == nil && c.wantStdout != nil || c.ends.stderr == nil && c.wantStderr != nil {
		c.ends.close()
		return errors.New("the host gave no output")
	}
	return nil
}

// adopt sorts the received files by name. It takes all of them, also when it fails.
func (e *ends) adopt(names []string, files []*os.File) error {
	var err error
	if len(names) != len(files) {
		err = fmt.Errorf("the host announced %d descriptors and sent %d", len(names), len(files))
	}
	for i, f := range files {
		if err != nil {
			_ = f.Close()
			continue
		}
		switch names[i] {
		case "stdin":
			e.stdin = f
		case "stdout":
			e.stdout = f
		case "stderr":
			e.stderr = f
		case "memory":
			e.memory = f
		case "terminal":
			e.terminal, e.stdout, e.stdin = f, f, terminalInput{f}
		default:
			_ = f.Close() // of a newer host; nobody asked for it
		}
	}
	if err != nil {
		e.close()
		*e = ends{}
	}
	return err
}

// terminalInput writes to a terminal without owning it: closing the input must not end the output.
type terminalInput struct{ io.Writer }

func (terminalInput) Close() error { return nil }

// sessionInput is the stdin of a session. The host keeps a duplicate of it for the plugin's next generation, so the
// program sees the end only when the host closes its own, too.
type sessionInput struct {
	io.WriteCloser
	cmd  *Cmd
	once sync.Once
	err  error
}

func (w *sessionInput) Close() error {
	w.once.Do(func() {
		w.err = w.WriteCloser.Close()
		select {
		case <-w.cmd.exited: // nobody reads it any more
		default:
			w.err = errors.Join(w.err, w.cmd.closeHostStdin())
		}
	})
	return w.err
}

// closeHostStdin asks the host to close its end: an Attach whose only message says so.
func (c *Cmd) closeHostStdin() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), killTimeout)
	defer cancel()
	stream, err := c.broker.client.Attach(ctx)
	if err != nil {
		return fmt.Errorf("close stdin: %w", err)
	}
	if err := stream.Send(&gantryv1.AttachRequest{ProcessId: c.id, CloseStdin: true}); err == nil {
		_ = stream.CloseSend()
	}
	if _, err := stream.Recv(); err != nil && err != io.EOF {
		return fmt.Errorf("close stdin: %w", err)
	}
	return nil
}
