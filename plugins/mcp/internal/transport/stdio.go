package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	pieceBytes    = 64 << 10
	glimpseBytes  = 4 << 10 // of the beginning and the end of a line that is too long
	maxUnanswered = 64
	maxLoggedJunk = 10 // lines per connection
	loggedBytes   = 500
)

// Stdio is a transport over the pipes of a process. Lines that are not messages are dropped.
type Stdio struct {
	In  io.WriteCloser // the server's standard input; closed by Close
	Out io.Reader      // the server's standard output; read until it ends, also after Close
	// Junk is called for the first lines that are dropped, with the beginning of the line and its size in bytes; nil: no one is.
	Junk func(line string, size int64)
}

var _ mcp.Transport = (*Stdio)(nil)

// Connect starts to read. The two goroutines end when Out has ended and the connection is closed.
func (s *Stdio) Connect(context.Context) (mcp.Connection, error) {
	c := &stdio{
		in: s.In, junk: s.Junk, incoming: make(chan received), outgoing: make(chan *frame), closed: make(chan struct{}), ended: make(chan struct{}),
		lines: lines{r: bufio.NewReaderSize(s.Out, pieceBytes)},
	}
	go c.read()  // owned by c; ends with Out
	go c.write() // owned by c; ends with Close
	return c, nil
}

type received struct {
	message jsonrpc.Message
	err     error
}

type frame struct {
	data []byte
	done chan error
}

type stdio struct {
	in       io.WriteCloser
	junk     func(string, int64)
	lines    lines
	dropped  int
	incoming chan received
	outgoing chan *frame
	once     sync.Once
	closed   chan struct{}
	ended    chan struct{} // closed when nothing more arrives
	reason   error         // why; set before

	mu struct {
		sync.Mutex
		unanswered int // requests of the server
	}
}

// SessionID implements mcp.Connection.
func (c *stdio) SessionID() string { return "" }

// Read implements mcp.Connection.
func (c *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.incoming:
		return m.message, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, io.EOF
	}
}

// Write implements mcp.Connection. It does not wait longer than ctx for a server that does not read.
func (c *stdio) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if _, answer := m.(*jsonrpc.Response); answer {
		c.mu.Lock()
		c.mu.unanswered--
		c.mu.Unlock()
	}
	f := &frame{append(data, '\n'), make(chan error, 1)}
	select {
	case c.outgoing <- f:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return io.ErrClosedPipe
	case <-c.ended: // a session ends only after its answers have been written
		return c.reason
	}
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done(): // the rest of the line is still written
		return ctx.Err()
	case <-c.closed:
		return io.ErrClosedPipe
	case <-c.ended: // a session ends only after its answers have been written
		return c.reason
	}
}

// Close implements mcp.Connection.
func (c *stdio) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.in.Close()
}

// write is the only writer of the server's input. Owned by the connection, whose Close ends it.
func (c *stdio) write() {
	for {
		select {
		case f := <-c.outgoing:
			_, err := c.in.Write(f.data)
			f.done <- err
		case <-c.closed:
			return
		}
	}
}

// read is the only reader of the server's output. Owned by the connection; it reads until the output ends, so that a server can write
// what it has before it exits.
func (c *stdio) read() {
	for failed := false; ; {
		line, long, err := c.lines.next()
		var got []received
		switch {
		case failed && err != nil:
			return
		case failed: // only so that the server is not blocked
			continue
		case err != nil:
			got = []received{{err: err}}
		case long != nil:
			got = c.long(long)
		default:
			got = c.messages(line)
		}
		for _, m := range got {
			if failed = m.err != nil; failed {
				c.reason = m.err
				close(c.ended)
			}
			select {
			case c.incoming <- m:
			case <-c.closed:
			}
		}
		if err != nil {
			return
		}
	}
}

// long returns what a line that is too long means: an answer that is an error, nothing, or the end of the connection.
func (c *stdio) long(l *longLine) []received {
	id, request, ok := l.id()
	switch {
	case !l.isJSON(), request:
		c.drop(l.head, l.size)
		return nil
	case ok:
		return []received{{message: tooLarge(id, l.size)}}
	}
	return []received{{err: fmt.Errorf("the server has sent a message of %d bytes, which is for no known call; the maximum is %d", l.size, MaxFrame)}}
}

// messages returns the messages of a line; none if it is not a message.
func (c *stdio) messages(line []byte) (out []received) {
	line = bytes.TrimSpace(line)
	parts := []json.RawMessage{line}
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '[': // a batch, in older versions of the protocol
		if json.Unmarshal(line, &parts) != nil {
			parts = nil
		}
	case line[0] != '{':
		parts = nil
	}
	for _, p := range parts {
		m, err := jsonrpc.DecodeMessage(p)
		if err != nil {
			out = nil
			break
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			if m.Error == nil {
				m.Result = capture(m.Result)
			}
		case *jsonrpc.Request:
			if m.IsCall() && !c.admit() {
				return append(out, received{err: fmt.Errorf("the server has sent more than %d requests without waiting for the answers", maxUnanswered)})
			}
		}
		out = append(out, received{message: m})
	}
	if out == nil {
		c.drop(line, int64(len(line)))
	}
	return out
}

// admit counts a request of the server. Without a limit, each would occupy memory until it is answered.
func (c *stdio) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.unanswered++
	return c.mu.unanswered <= maxUnanswered
}

func (c *stdio) drop(line []byte, size int64) {
	if c.dropped++; c.junk != nil && c.dropped <= maxLoggedJunk {
		c.junk(strings.ToValidUTF8(string(line[:min(len(line), loggedBytes)]), "\uFFFD"), size)
	}
}

// lines reads lines of limited size.
type lines struct {
	r *bufio.Reader
}

// longLine is what is kept of a line that is too long, or that can't be a message.
type longLine struct {
	size       int64
	head, tail []byte
}

// next returns the next line with its end. A long line is read to its end, but not kept.
func (l lines) next() (line []byte, long *longLine, err error) {
	var pieces [][]byte
	size := int64(0)
	for {
		piece, err := l.r.ReadSlice('\n')
		size += int64(len(piece))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, nil, err // what a server leaves without an end is no message
		}
		if long == nil && err == nil && pieces == nil {
			return bytes.Clone(piece), nil, nil
		}
		if long == nil {
			pieces = append(pieces, bytes.Clone(piece))
			if !startsJSON(pieces[0]) || size > MaxFrame {
				long = &longLine{head: bytes.Clone(pieces[0][:min(len(pieces[0]), glimpseBytes)])}
				pieces = nil
			}
		}
		if long != nil {
			long.tail = append(long.tail, piece...)
			long.tail = append(long.tail[:0], long.tail[max(0, len(long.tail)-glimpseBytes):]...)
			long.size = size
		}
		if err != nil {
			continue
		}
		if long != nil {
			return nil, long, nil
		}
		return bytes.Join(pieces, nil), nil, nil
	}
}

// startsJSON reports whether a line could be a message.
func startsJSON(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\r")
	return len(line) == 0 || line[0] == '{' || line[0] == '['
}

func (l *longLine) isJSON() bool { return startsJSON(l.head) }

// idAtEnd matches the ID of a message whose members end with it.
var idAtEnd = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
})

// id returns the ID of a message of which only the beginning and the end are known. request says that it is not an answer.
func (l *longLine) id() (id jsonrpc.ID, request, ok bool) {
	d := json.NewDecoder(bytes.NewReader(l.head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return id, false, false
	}
	for {
		key, err := d.Token()
		if err != nil {
			break
		}
		switch key {
		case "method", "params":
			return id, true, false
		case "jsonrpc", "id":
			var value any
			if d.Decode(&value) != nil {
				return id, false, false
			}
			if key == "id" {
				id, err = jsonrpc.MakeID(value)
				return id, false, err == nil && id.IsValid()
			}
			continue
		}
		break
	}
	m := idAtEnd().FindSubmatch(l.tail)
	var value any
	if m == nil || json.Unmarshal(m[1], &value) != nil {
		return id, false, false
	}
	id, err := jsonrpc.MakeID(value)
	return id, false, err == nil && id.IsValid()
}

// Tail keeps the end of what is written to it, for example of a server's standard error.
type Tail struct {
	mu  sync.Mutex
	end []byte
}

// tailBytes is how much a [Tail] keeps.
const tailBytes = 8 << 10

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p[max(0, len(p)-tailBytes):]...)
	t.end = append(t.end[:0], t.end[max(0, len(t.end)-tailBytes):]...)
	return len(p), nil
}

// String returns the end as it was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.end), "\uFFFD")
}
