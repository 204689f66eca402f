package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	} else if err := c.attach(life); err != nil {
		return err
	}
	for _, r := range []io.ReadCloser{c.ends.stdout, c.ends.stderr} {
		if r != nil {
			c.streams = append(c.streams, newStream(r))
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
