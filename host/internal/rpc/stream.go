package rpc

import (
	"io"

	"github.com/gorilla/websocket"
)

// Stream carries whole messages. Read is called by one goroutine, Write by another, Close by any, more than once.
type Stream interface {
	// Read returns the next message, which belongs to the caller; [io.EOF] at the end; and a [*TooLargeError] for a message over the
	// limit, after which reading continues with the next one. Other errors are final.
	Read() ([]byte, error)
	// Write sends a message, which has no newlines. It does not keep it.
	Write(msg []byte) error
	// Close ends Read and Write.
	Close() error
}

// Lines returns a stream of one JSON text per line. Empty lines are skipped; the last line needs no newline. c closes both sides; nil:
// nothing to close.
func Lines(r io.Reader, w io.Writer, c io.Closer) Stream { return nil }

// WebSocket returns a stream of one JSON text per text frame. Binary frames are ignored with a log line, pings are answered.
func WebSocket(c *websocket.Conn) Stream { return nil }
