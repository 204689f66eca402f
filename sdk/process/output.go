package process

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Output runs the command and returns its stdout, at most MaxOutputBytes of it.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("process: Stdout already set")
	}
	out := &head{max: MaxOutputBytes}
	c.Stdout = out
	var tail *ends32k
	if c.Stderr == nil && c.wantStderr == nil && c.Terminal == nil && !c.MergeStderr {
		tail = &ends32k{}
		c.Stderr = tail
	}
	err := c.Run()
	if e, ok := errors.AsType[*ExitError](err); ok && tail != nil {
		e.Stderr = tail.bytes()
	}
	return out.result(err)
}

// CombinedOutput runs the command and returns what it wrote to stdout and stderr, in the order of writing, at most
// MaxOutputBytes of it.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("process: Stdout or Stderr already set")
	}
	out := &head{max: MaxOutputBytes}
	c.Stdout, c.MergeStderr = out, c.Terminal == nil
	return out.result(c.Run())
}

// head stores the beginning of what is written to it.
type head struct {
	max int
	buf bytes.Buffer
	cut bool
}

func (h *head) Write(p []byte) (int, error) {
	room := h.max - h.buf.Len()
	if len(p) > room {
		h.cut = true
		h.buf.Write(p[:room])
	} else {
		h.buf.Write(p)
	}
	return len(p), nil
}

func (h *head) result(err error) ([]byte, error) {
	if err == nil && h.cut {
		err = ErrOutputTooLong
	}
	return h.buf.Bytes(), err
}

// ends32k stores the first and the last 16 KiB of what is written to it.
type ends32k struct {
	first, last []byte
	omitted     int64
}

const end16k = 16 << 10

func (e *ends32k) Write(p []byte) (int, error) {
	n := len(p)
	if room := end16k - len(e.first); room > 0 {
		k := min(room, len(p))
		e.first = append(e.first, p[:k]...)
		p = p[k:]
	}
	if len(p) > end16k {
		e.omitted += int64(len(p) - end16k)
		p = p[len(p)-end16k:]
	}
	if over := len(e.last) + len(p) - end16k; over > 0 {
		e.omitted += int64(over)
		e.last = append(e.last[:0], e.last[over:]...)
	}
	e.last = append(e.last, p...)
	return n, nil
}

func (e *ends32k) bytes() []byte {
	if e.omitted == 0 {
		return slices.Concat(e.first, e.last)
	}
	return slices.Concat(e.first, fmt.Appendf(nil, "\n... omitting %d bytes ...\n", e.omitted), e.last)
}
