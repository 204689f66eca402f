package vendors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Break is something that goes wrong with a stream.
type Break int

// The breaks. All but the last two keep the answer from its end.
const (
	Well        Break = iota
	Garbled           // before its end comes a frame that is no JSON
	Silent            // before its end nothing more comes
	Failing           // before its end comes an error of the vendor's
	Endless           // a piece of its text comes again and again
	Interleaved       // blocks open and close in an order that nobody promises
	Mislabelled       // the stream is said to be plain text
	Trailing          // more comes behind its end, and the connection stays open
)

// stream collects an answer as pieces that are sent one by one.
type stream struct {
	contentType string
	pieces      [][]byte
	named       string // the field that named the last event before the end, where events have names
	end         int    // pieces before the one that completes the answer
	failure     []byte // an error, as a piece
	again       int    // pieces up to the one that an endless stream repeats
}

// event adds a server-sent event; name may be empty.
func (s *stream) event(name string, v any) {
	s.contentType = "text/event-stream"
	var b bytes.Buffer
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
		if s.end == 0 {
			s.named = b.String()
		}
	}
	fmt.Fprintf(&b, "data: %s\n\n", marshal(v))
	s.pieces = append(s.pieces, b.Bytes())
}

// line adds a line of JSON.
func (s *stream) line(v any) {
	s.contentType = "application/x-ndjson"
	s.pieces = append(s.pieces, append(marshal(v), '\n'))
}

// completes marks that what follows completes the answer.
func (s *stream) completes() { s.end = len(s.pieces) }

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals of this package
	}
	return b
}

// fails makes the vendor's error object a piece.
func (s *stream) fails(v any) {
	switch {
	case s.contentType == eventStream:
		s.failure = binaryFrame(marshal(v), ":message-type", "exception", ":exception-type", "internalServerException", ":content-type", "application/json")
	case s.contentType != "text/event-stream":
		s.failure = append(marshal(v), '\n')
	case s.named != "":
		s.failure = fmt.Appendf(nil, "event: error\ndata: %s\n\n", marshal(v))
	default:
		s.failure = fmt.Appendf(nil, "data: %s\n\n", marshal(v))
	}
}

// repeats marks the piece that an [Endless] stream repeats: the last one.
func (s *stream) repeats() { s.again = len(s.pieces) }

// send writes the pieces, each in two halves, since a network cuts where it likes.
func (s *stream) send(w http.ResponseWriter, r *http.Request, a Answer) {
	w.Header().Set("Content-Type", s.contentType)
	if a.Break == Mislabelled {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	piece := func(p []byte) bool {
		select {
		case <-time.After(a.Pause):
		case <-r.Context().Done():
			return false
		}
		for _, half := range [][]byte{p[:len(p)/2], p[len(p)/2:]} {
			if _, err := w.Write(half); err != nil {
				return false // the client left
			}
			flush()
		}
		return true
	}
	for _, p := range s.bent(a) {
		if !piece(p) {
			return
		}
	}
	switch {
	case a.Cut:
		panic(http.ErrAbortHandler)
	case a.Break == Silent, a.Break == Trailing:
		<-r.Context().Done()
	case a.Break == Endless:
		for piece(s.pieces[s.again-1]) {
		}
	}
}

// bent are the pieces that are sent.
func (s *stream) bent(a Answer) [][]byte {
	begun := s.pieces[:s.end:s.end]
	switch a.Break {
	case Garbled:
		return append(append(begun, s.garbage()), s.pieces[s.end:]...)
	case Silent:
		return begun
	case Failing:
		return append(begun, s.failure)
	case Endless:
		return s.pieces[:s.again:s.again]
	case Trailing:
		return append(s.pieces, s.garbage(), []byte("and still more\n\n"))
	}
	if a.Cut {
		return begun
	}
	return s.pieces
}

// garbage is a frame that is no JSON.
func (s *stream) garbage() []byte {
	if s.contentType == eventStream {
		return converseEvent("contentBlockDelta", []byte(`{"type": "what"`))
	}
	if s.contentType == "text/event-stream" {
		return []byte(s.named + "data: {\"type\": \"what\"\n\n")
	}
	return []byte("{\"type\": \"what\"\n")
}
