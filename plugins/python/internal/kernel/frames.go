package kernel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxFrame is the maximum size of a frame. A worker that sends more is broken, or its user's code pretends to be it.
const maxFrame = 16 << 20

// frame is a message of the worker. Which fields have a meaning depends on Op. It comes from a process that runs untrusted code.
type frame struct {
	Op string `json:"op"`
	ID string `json:"id"` // of the cell

	// ready, old, pong
	Version    string `json:"version"`
	Executable string `json:"executable"`
	// pong
	Nonce  string `json:"nonce"`
	Cell   string `json:"cell"`
	Marker string `json:"marker"` // of the latest cell
	Memory int64  `json:"memory"`
	// result, display
	Data map[string]json.RawMessage `json:"-"`
	// error
	EName     string `json:"ename"`
	EValue    string `json:"evalue"`
	Traceback string `json:"traceback"`
	// call, tools, artifact, chunk
	Seq       int64           `json:"seq"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	Text      *string         `json:"text"`
	Name      string          `json:"name"`
	MediaType string          `json:"media_type"`
	Last      bool            `json:"last"`
	Abort     bool            `json:"abort"`
	Chunk     []byte          `json:"-"`
	// output, progress
	Value   json.RawMessage `json:"value"`
	Label   string          `json:"label"`
	Done    float64         `json:"done"`
	Total   float64         `json:"total"`
	Message string          `json:"message"`
	// done
	Status    string `json:"status"`
	Marked    bool   `json:"marked"`
	Count     int    `json:"count"`
	ElapsedMS int64  `json:"elapsed_ms"`

	Payload json.RawMessage `json:"data"` // Data or Chunk, depending on Op
}

var errLongFrame = fmt.Errorf("a frame is longer than %d bytes", maxFrame)

// readLine returns the next line, without its end. It is valid until the next call.
func readLine(r *bufio.Reader, buf *bytes.Buffer) ([]byte, error) {
	buf.Reset()
	for {
		piece, err := r.ReadSlice('\n')
		if buf.Len() == 0 && err == nil {
			return piece[:len(piece)-1], nil
		}
		if buf.Len()+len(piece) > maxFrame {
			return nil, errLongFrame
		}
		buf.Write(piece)
		switch {
		case err == nil:
			return buf.Bytes()[:buf.Len()-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && buf.Len() > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// parseFrame parses a line.
func parseFrame(line []byte) (*frame, error) {
	var f frame
	if err := json.Unmarshal(line, &f); err != nil {
		return nil, fmt.Errorf("invalid frame: %w", err)
	}
	switch f.Op {
	case "":
		return nil, errors.New("invalid frame: it has no op")
	case "result", "display":
		if err := json.Unmarshal(f.Payload, &f.Data); err != nil {
			return nil, fmt.Errorf("invalid frame: %s: data: %w", f.Op, err)
		}
	case "chunk":
		if len(f.Payload) > 0 {
			if err := json.Unmarshal(f.Payload, &f.Chunk); err != nil {
				return nil, fmt.Errorf("invalid frame: chunk: data: %w", err)
			}
		}
	case "progress":
		if f.Done < 0 || f.Total < 0 || math.IsInf(f.Done+f.Total, 0) {
			return nil, errors.New("invalid frame: progress: the numbers are out of range")
		}
	}
	f.Payload = nil
	return &f, nil
}

// request is a message to the worker.
type request struct {
	Op     string `json:"op"`
	ID     string `json:"id,omitempty"`
	Code   string `json:"code,omitempty"`
	Marker string `json:"marker,omitempty"`
	Nonce  string `json:"nonce,omitempty"`
	// reply
	Seq   int64           `json:"seq,omitempty"`
	OK    bool            `json:"ok,omitempty"`
	Error string          `json:"error,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// encode returns the frame of a request.
func (r request) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.Op, err)
	case len(b) >= maxFrame:
		return nil, fmt.Errorf("%s: %w", r.Op, errLongFrame)
	}
	return append(b, '\n'), nil
}
