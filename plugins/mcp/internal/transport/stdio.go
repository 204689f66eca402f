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
	pieceBytes    = 8 << 10       // that each connection keeps for reading
	glimpseBytes  = 4 << 10       // of the beginning and the end of a line that is too long
	maxLine       = 16 * MaxFrame // a line of more ends the connection
	maxLoggedJunk = 10            // lines per connection
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
	c.lines.only = c.flow.only
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
	flow     flow
	notices  int // since the last pause
	incoming chan received
	outgoing chan *frame
	once     sync.Once
	closed   chan struct{}
	ended    chan struct{} // closed when nothing more arrives
	reason   error         // why; set before
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
	if !c.flow.sent(m) {
		return nil
	}
	c.flow.answered(m)
	c.flow.asked(m)
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
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
	for {
		line, long, err := c.lines.next()
		var got []received
		switch {
		case err != nil:
			got = []received{{err: err}}
		case long != nil:
			got = c.long(long)
		default:
			got = c.messages(line)
		}
		for _, m := range got {
			if m.err == nil {
				c.deliver(m)
				continue
			}
			c.reason = m.err
			close(c.ended)
			c.deliver(m)
			_, _ = io.Copy(io.Discard, c.lines.r) // only so that the server is not blocked
			return
		}
	}
}

// deliver passes a message to the session, and waits for the session if it is slower than the server.
func (c *stdio) deliver(m received) {
	select {
	case c.incoming <- m:
	case <-c.closed:
		return
	}
	if r, ok := m.message.(*jsonrpc.Request); !ok || r.IsCall() {
		return
	}
	if c.notices++; c.notices < maxNotices {
		return
	}
	c.notices = 0
	r, done, err := c.flow.pause()
	if err != nil {
		return
	}
	select {
	case c.incoming <- received{message: r}:
	case <-c.closed:
		return
	}
	select {
	case <-done:
	case <-c.closed:
	}
}

// long returns what a line that is too long means: an answer that is an error, nothing, or the end of the connection.
func (c *stdio) long(l *longLine) []received {
	id, request, _, ok := l.id()
	switch {
	case !l.isJSON(), request:
		c.drop(l.head, l.size)
		return nil
	case ok:
		c.flow.got(id)
		return []received{{message: tooLarge(id)}}
	}
	return []received{{err: fmt.Errorf("the server has sent a message of %d bytes, which is for no known call; the maximum is %d", l.size, MaxFrame)}}
}

// malformed returns an error as the answer to a call whose real one can't be read, so that the call does not wait for another one; nil:
// the line does not look like an answer.
func malformed(line []byte) jsonrpc.Message {
	l := longLine{head: line[:min(len(line), glimpseBytes)], tail: line[max(0, len(line)-glimpseBytes):]}
	id, _, answer, ok := l.id()
	if !answer || !ok {
		return nil
	}
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the server's answer is not valid JSON, or no answer of the protocol"}}
}

// maxBatch is the number of messages in a batch that are read. Those of old servers have a few.
const maxBatch = 1000

// batch returns the parts of a batch, up to one that can't be a message.
func batch(line []byte) (parts []json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() && len(parts) < maxBatch {
		var p json.RawMessage
		if d.Decode(&p) != nil || p[0] != '{' {
			break
		}
		parts = append(parts, p)
	}
	return parts
}

// messages returns the messages of a line; none if it is not a message.
func (c *stdio) messages(line []byte) (out []received) {
	line = bytes.TrimSpace(line)
	var parts []json.RawMessage
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '[': // a batch, in older versions of the protocol
		parts = batch(line)
	case line[0] == '{':
		parts = []json.RawMessage{line}
	}
	for _, p := range parts {
		m, err := jsonrpc.DecodeMessage(p)
		if err != nil {
			if m = malformed(p); m == nil {
				continue
			}
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			c.flow.got(m.ID)
			if m.Error == nil {
				m.Result = capture(m.Result)
			}
		case *jsonrpc.Request:
			if err := c.flow.admit(m); err != nil {
				return append(out, received{err: err})
			}
		}
		out = append(out, received{message: m})
	}
	if out == nil {
		c.drop(line, int64(len(line)))
	}
	return out
}

func (c *stdio) drop(line []byte, size int64) {
	if c.dropped++; c.junk != nil && c.dropped <= maxLoggedJunk {
		c.junk(strings.ToValidUTF8(string(line[:min(len(line), loggedBytes)]), "\uFFFD"), size)
	}
}

// lines reads lines of limited size.
type lines struct {
	r    *bufio.Reader
	rest int64 // bytes of a line that has been returned before its end; 0: the next line begins
	// only returns the ID of the only call that waits for an answer; false: there is none, or there are several.
	only func() (jsonrpc.ID, bool)
}

// longLine is what is kept of a line that is too long, or that can't be a message.
type longLine struct {
	size       int64 // so far, if it is the answer to a known call
	head, tail []byte
	to         jsonrpc.ID // the call that it answers, if that is known without its own ID
}

// next returns the next line with its end. A long line is read to its end, but not kept. It is returned as soon as it is too long if its
// beginning has the ID of a call, or if it begins as an answer, whose ID may come last, while only one call waits for one.
func (l *lines) next() (line []byte, long *longLine, err error) {
	var pieces [][]byte
	size, skip := l.rest, l.rest > 0
	l.rest = 0
	for {
		piece, err := l.r.ReadSlice('\n')
		size += int64(len(piece))
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, err // what a server leaves without an end is no message
		case size > maxLine:
			return nil, nil, fmt.Errorf("the server has sent a line of more than %d bytes", maxLine)
		case skip && err == nil:
			size, skip = 0, false
			continue
		case skip:
			continue
		}
		if long == nil && err == nil && pieces == nil {
			return bytes.Clone(piece), nil, nil
		}
		if long == nil {
			pieces = append(pieces, bytes.Clone(piece))
			if !startsJSON(pieces[0]) || size > MaxFrame {
				long = &longLine{head: bytes.Clone(pieces[0][:min(len(pieces[0]), glimpseBytes)])}
				pieces = nil
				_, request, answer, ok := long.id()
				if !ok && answer {
					long.to, ok = l.only()
				}
				if ok && !request {
					long.size = size
					if err != nil {
						l.rest = size
					}
					return nil, long, nil
				}
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

// id returns the ID of a message of which only the beginning and the end are known; ok is false if there is none. request says that it is
// not an answer, and answer that it is one for sure.
func (l *longLine) id() (id jsonrpc.ID, request, answer, ok bool) {
	if l.to.IsValid() {
		return l.to, false, true, true
	}
	d := json.NewDecoder(bytes.NewReader(l.head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return id, false, false, false
	}
	var value any
	for {
		key, err := d.Token()
		if err != nil {
			break
		}
		if key == "method" || key == "params" {
			return id, true, false, false
		}
		if answer = key == "result" || key == "error"; key != "jsonrpc" && key != "id" {
			break
		}
		var v any
		if d.Decode(&v) != nil {
			return id, false, false, false
		}
		if key == "id" {
			value = v
		}
	}
	if m := idAtEnd().FindSubmatch(l.tail); value == nil && (m == nil || json.Unmarshal(m[1], &value) != nil) {
		return id, false, answer, false
	}
	id, err := jsonrpc.MakeID(value)
	return id, false, answer, err == nil && id.IsValid()
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

// ReadFrom implements io.ReaderFrom, for [io.Copy], whose own buffer would be larger than what is kept.
func (t *Tail) ReadFrom(r io.Reader) (n int64, _ error) {
	for piece := make([]byte, tailBytes/4); ; {
		k, err := r.Read(piece)
		n += int64(k)
		_, _ = t.Write(piece[:k]) // can't fail
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// String returns the end as it was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.end), "\uFFFD")
}
