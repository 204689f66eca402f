package ollamahost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	maxProgressLine = 1 << 20 // bytes; a line has some two hundred
	pullBuffer      = 32 << 10
)

// Pull has the server fetch a model and returns when it is there. progress hears of each step, in this goroutine; it may
// be nil. It takes as long as ctx lets it: a model has many gigabytes.
func (c *Client) Pull(ctx context.Context, model string, progress func(ollama.Progress)) error {
	resp, err := c.send(ctx, http.MethodPost, "/api/pull", map[string]any{"model": model, "stream": true})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines, err := framing.New(protocol.FramingNDJSON, maxProgressLine)
	if err != nil { // a framing that exists
		return fmt.Errorf("fetch the model %s: %w", model, err)
	}
	step := func(f protocol.Frame) error {
		p, err := ollama.ParseProgress(f.Data)
		if err != nil {
			return err
		}
		if progress != nil {
			progress(p)
		}
		if p.Done() {
			return errFetched
		}
		return nil
	}
	buf := make([]byte, pullBuffer)
	for {
		n, readErr := resp.Body.Read(buf)
		if n > 0 {
			err = lines.Write(buf[:n], step)
		}
		if err == nil && readErr == io.EOF {
			err = lines.Close(step)
		}
		switch {
		case err == errFetched:
			return nil
		case err != nil:
			return c.notFetched(model, err)
		case readErr == io.EOF:
			return c.notFetched(model, protocol.Incomplete())
		case readErr != nil:
			return c.notFetched(model, c.unreachable(ctx, readErr))
		}
	}
}

// errFetched ends the reading of a fetch that succeeded.
var errFetched = errors.New("fetched")

func (c *Client) notFetched(model string, err error) error {
	e, ok := err.(*llm.Error)
	if !ok {
		return fmt.Errorf("fetch the model %s: %w", model, err)
	}
	out := *e
	out.Message = fmt.Sprintf("the server at %s did not fetch the model %s: %s", c.base, model, e.Message)
	if out.Next == "" {
		out.Next = "check the model's name at ollama.com/library, and the server's log"
	}
	return &out
}
