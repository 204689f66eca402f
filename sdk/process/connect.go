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

// connectTimeout bounds the transfer of the descriptors, which are available when Spawn returns.
const connectTimeout = 5 * time.Second

// connect receives the process's descriptors, or opens an Attach stream. life ends when Wait returns.
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
		return errors.New("the host passed no stdin")
	}
	if c.ends.stdout == nil && c.wantStdout != nil || c.ends.stderr == nil && c.wantStderr != nil {
		c.ends.close()
		return errors.New("the host passed no output")
	}
	return nil
}

// adopt assigns the received files by name. It takes ownership of them, even if it fails.
func (e *ends) adopt(names []string, files []*os.File) error {
	var err error
	if len(names) != len(files) {
		err = fmt.Errorf("the host announced %d descriptors but passed %d", len(names), len(files))
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
			_ = f.Close() // from a newer host
		}
	}
	if err != nil {
		e.close()
		*e = ends{}
	}
	return err
}

// terminalInput writes to a terminal. Close does nothing, because it would also end the output.
type terminalInput struct{ io.Writer }

func (terminalInput) Close() error { return nil }

// sessionInput is the stdin of a session. The host has a duplicate for the next process of the plugin, which must be closed as
// well for the program to see the end of its input.
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
		case <-w.cmd.exited: // the program has ended
		default:
			w.err = errors.Join(w.err, w.cmd.closeHostStdin())
		}
	})
	return w.err
}

// closeHostStdin asks the host to close its duplicate of stdin, with an Attach of a single message.
func (c *Cmd) closeHostStdin() error {
	ctx, cancel := c.requestContext()
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
