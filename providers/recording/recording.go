// Package recording keeps what a model was asked and what it answered, one JSON object per line, and finds the answer
// again when the same is asked.
//
// It owns: the line format, the comparison of a request with the recorded one, and the order of replay per thread. It
// must not know: files, gRPC, or which provider recorded.
//
// Start with [Entry] and [Replay].
package recording

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Entry is one request with its answer.
type Entry struct {
	Thread  string            `json:"thread"`
	Request int               `json:"request"` // of its thread, from 1
	Asked   Summary           `json:"asked"`
	Events  []json.RawMessage `json:"events"`           // as script.MarshalEvent writes them
	Cut     bool              `json:"cut,omitempty"`    // the stream ended without a last event
	Cancel  bool              `json:"cancel,omitempty"` // because the host cancelled it
}

// Summary is what is kept of a request: enough to tell whether another one is the same, and to show how it differs.
type Summary struct {
	Digest string   `json:"digest"` // of the canonical JSON
	Model  string   `json:"model"`
	User   string   `json:"user,omitempty"`
	Shape  string   `json:"shape"`
	Tools  []string `json:"tools,omitempty"`
	Lines  []string `json:"lines,omitempty"` // each cut at 200 characters
}

// Summarize returns the summary of a request.
func Summarize(req *llm.Request) (Summary, error) {
	b, err := Canonical(req)
	if err != nil {
		return Summary{}, err
	}
	sum := sha256.Sum256(b)
	s := Summary{Digest: hex.EncodeToString(sum[:]), Model: req.Model, User: script.UserText(req), Shape: script.Shape(req)}
	for _, t := range req.Tools {
		s.Tools = append(s.Tools, t.Name)
	}
	for _, l := range script.Lines(req) {
		if r := []rune(l); len(r) > 200 {
			l = string(r[:200]) + "…"
		}
		s.Lines = append(s.Lines, l)
	}
	return s, nil
}

// Canonical returns the request as JSON whose bytes depend on nothing but its content: compact, every object's keys
// sorted, also inside of schemas and metadata.
func Canonical(req *llm.Request) ([]byte, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("request as JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("request as JSON: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, fmt.Errorf("request as JSON: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Line returns the entry as one line with its end.
func (e Entry) Line() ([]byte, error) {
	b, err := json.Marshal(e)
	return append(b, '\n'), err
}

// Add appends an event.
func (e *Entry) Add(ev llm.Event) error {
	b, err := script.MarshalEvent(ev)
	if err != nil {
		return err
	}
	e.Events = append(e.Events, b)
	return nil
}

// Answer returns the events.
func (e Entry) Answer() ([]llm.Event, error) {
	out := make([]llm.Event, len(e.Events))
	for i, b := range e.Events {
		ev, err := script.UnmarshalEvent(b)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		out[i] = ev
	}
	return out, nil
}

// Parse reads a recording. Empty lines are skipped.
func Parse(text []byte) ([]Entry, error) {
	var entries []Entry
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, err := e.Answer(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("nothing is recorded in it")
	}
	return entries, nil
}
