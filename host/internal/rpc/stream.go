package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
)

// Stream carries whole messages. Read is called by one goroutine, Write by another, Close by any, more than once. If it has a method
// Flush() error, Write may keep messages until that is called.
type Stream interface {
	// Read returns the next message, which belongs to the caller, and a [*TooLargeError] for a message over the limit, after which
	// reading continues with the next one. Other errors are final: [io.EOF] is the end of input, after which the client may still
	// read; [ErrClosed] says that the client has left.
	Read() ([]byte, error)
	// Write sends a message, which has no newlines. It does not retain it.
	Write(msg []byte) error
	// Close ends Read and Write.
	Close() error
}

const (
	bufferSize = 64 << 10
	headSize   = 4 << 10 // of a message over the limit
)

// Limit bounds the messages of a stream, in bytes, for a reader other than [Conn]. It is called before Read.
func Limit(s Stream, maxMessage int) {
	if c, ok := s.(interface{ configure(Config) }); ok {
		c.configure(Config{MaxMessage: maxMessage, Logger: hclog.NewNullLogger()})
	}
}

type lines struct {
	r     *bufio.Reader
	w     *bufio.Writer
	close func() error
	limit int
}

// Lines returns a stream of one JSON text per line. Empty lines are skipped; the last line needs no newline. c closes both sides; nil:
// nothing to close.
func Lines(r io.Reader, w io.Writer, c io.Closer) Stream {
	s := &lines{r: bufio.NewReaderSize(r, bufferSize), w: bufio.NewWriterSize(w, bufferSize), close: func() error { return nil }}
	if c != nil {
		s.close = sync.OnceValue(c.Close)
	}
	return s
}

func (s *lines) configure(cfg Config) { s.limit = cfg.MaxMessage }

// Read implements [Stream].
func (s *lines) Read() ([]byte, error) {
	for {
		line, err := s.line()
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil // an error returns with the next call
		}
		if err != nil {
			return nil, err
		}
	}
}

// line returns a copy of the next line.
func (s *lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if s.limit > 0 && len(line)+len(part) > s.limit+len("\n") {
			return nil, s.skip(append(line[:min(len(line), headSize)], part...), err)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// skip reads the rest of a line that is too long.
func (s *lines) skip(line []byte, err error) error {
	head := bytes.Clone(line[:min(len(line), headSize)]) // without the memory of the line
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = s.r.ReadSlice('\n')
	}
	return &TooLargeError{Limit: s.limit, Head: head}
}

// Write implements [Stream].
func (s *lines) Write(msg []byte) error {
	if _, err := s.w.Write(msg); err != nil {
		return err
	}
	return s.w.WriteByte('\n')
}

// Flush sends what Write has kept.
func (s *lines) Flush() error { return s.w.Flush() }

// Close implements [Stream].
func (s *lines) Close() error { return s.close() }

type socket struct {
	c       *websocket.Conn
	close   func() error
	limit   int
	log     hclog.Logger
	scratch bytes.Buffer
	warned  bool
}

// closeFrameTimeout is short because a client that does not read would delay the end of its connection by it.
const closeFrameTimeout = 250 * time.Millisecond

// WebSocket returns a stream of one JSON text per text frame. Binary frames are ignored with a log line, pings are answered.
func WebSocket(c *websocket.Conn) Stream {
	return &socket{c: c, log: hclog.NewNullLogger(), close: sync.OnceValue(func() error {
		goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = c.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(closeFrameTimeout))
		return c.Close()
	})}
}

func (s *socket) configure(cfg Config) { s.limit, s.log = cfg.MaxMessage, cfg.Logger }

// Read implements [Stream].
func (s *socket) Read() ([]byte, error) {
	for {
		kind, r, err := s.c.NextReader() // skips what is left of the message before
		if err != nil {
			return nil, leftOr(err)
		}
		if kind != websocket.TextMessage {
			if !s.warned {
				s.log.Warn("ignored a binary websocket message; further ones are not logged")
			}
			s.warned = true
			continue
		}
		if s.limit > 0 {
			r = io.LimitReader(r, int64(s.limit)+1)
		}
		s.scratch.Reset()
		if _, err := s.scratch.ReadFrom(r); err != nil {
			return nil, leftOr(err)
		}
		b := s.scratch.Bytes()
		if s.limit > 0 && len(b) > s.limit {
			s.scratch = bytes.Buffer{}
			return nil, &TooLargeError{Limit: s.limit, Head: bytes.Clone(b[:headSize])}
		}
		if len(bytes.TrimSpace(b)) == 0 {
			continue
		}
		if cap(b) > bufferSize {
			s.scratch = bytes.Buffer{} // a large one is given away instead of copied
			return b, nil
		}
		return bytes.Clone(b), nil
	}
}

// leftOr returns ErrClosed if err says that the client has closed the connection, with or without a close frame.
func leftOr(err error) error {
	if _, ok := errors.AsType[*websocket.CloseError](err); ok {
		return ErrClosed
	}
	return err
}

// Write implements [Stream].
func (s *socket) Write(msg []byte) error { return s.c.WriteMessage(websocket.TextMessage, msg) }

// Close implements [Stream].
func (s *socket) Close() error { return s.close() }
