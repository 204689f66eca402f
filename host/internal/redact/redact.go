// Package redact takes secrets out of text before anybody reads it: a model, a door, a log.
//
// It owns: the values that are known to be secrets, the patterns by which others are recognised, and finding both in text
// that comes in pieces. It must not know: where a value comes from, what the text is, who reads it.
//
// It is there for accidents: a key that a program prints. Who wants to get a secret out writes it backwards. What keeps
// secrets from programs is their environment and their sandbox.
//
// Start with [Redactor].
package redact

import (
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Placeholder stands where a secret was. Matches codex 0.169.
const Placeholder = "[REDACTED_SECRET]"

const (
	// minValue is how many bytes a value must have to be looked for: shorter ones are in words.
	minValue = 8
	// maxPiece is how much of a value is looked for as a whole; a longer one is looked for in pieces.
	maxPiece = 256
	// maxValues bounds the bytes of all values, and with them the memory: some 50 bytes for each.
	maxValues = 256 << 10
)

// Redactor knows secrets. Safe for concurrent use; the zero value knows none, and nil changes nothing.
type Redactor struct {
	values atomic.Pointer[automaton] // nil: none

	mu    sync.Mutex
	known map[string]bool
	bytes int
	off   atomic.Bool // patterns
}

// DisablePatterns switches patterns off but for logs.
func (r *Redactor) DisablePatterns() { r.off.Store(true) }

// Add makes values known. What is too short for a secret is left out. Text that is being read piece by piece is looked through
// for them from the next piece on.
func (r *Redactor) Add(values ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.known)
	for _, v := range values {
		for line := range strings.Lines(v) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "-----") { // the frame of a key
				continue
			}
			for piece := range slices.Chunk([]byte(line), maxPiece) {
				p := string(piece)
				if len(p) < minValue || r.known[p] || r.bytes+len(p) > maxValues {
					continue
				}
				if r.known == nil {
					r.known = map[string]bool{}
				}
				r.known[p] = true
				r.bytes += len(p)
			}
		}
	}
	if len(r.known) > before {
		r.values.Store(newAutomaton(slices.Sorted(maps.Keys(r.known))))
	}
}

// Text returns a text without secrets; the text itself when there are none.
func (r *Redactor) Text(s string) string { return r.text(s, credential) }

func (r *Redactor) text(s string, assigned *rule) string {
	if r == nil || len(s) < minValue {
		return s
	}
	t := r.stream(assigned)
	out := t.feed(make([]byte, 0, len(s)), s)
	out = t.rest(out)
	if string(out) == s {
		return s
	}
	return string(out)
}

// Stream returns a reader of text that comes in pieces.
func (r *Redactor) Stream() *Stream {
	if r == nil {
		return nil
	}
	return r.stream(credential)
}

func (r *Redactor) stream(assigned *rule) *Stream {
	t := &Stream{r: r}
	t.patterns.assigned = assigned
	return t
}

// Stream looks for secrets in text that comes in pieces. It holds back what may be the beginning of one, so that one that
// comes in several pieces is found: at most the length of the longest value, or of a credential. Not safe for concurrent
// use; nil changes nothing.
type Stream struct {
	r        *Redactor
	values   valueStream
	patterns patternStream
	piece    []byte // read
	between  []byte // without values
}

// Write takes a piece and returns what may be shown by now; it may be empty.
func (t *Stream) Write(piece string) string {
	if t == nil {
		return piece
	}
	return string(t.feed(make([]byte, 0, len(piece)+16), piece))
}

// End returns what was held back. Nothing of it was a secret, or it is none that is whole.
func (t *Stream) End() string {
	if t == nil {
		return ""
	}
	return string(t.rest(nil))
}

func (t *Stream) feed(out []byte, piece string) []byte {
	t.piece = append(t.piece[:0], piece...)
	m := t.r.values.Load()
	switch {
	case m != nil && t.byPattern():
		t.between = t.values.write(t.between[:0], m, t.piece)
		return t.patterns.write(out, t.between)
	case m != nil:
		return t.values.write(out, m, t.piece)
	case t.byPattern():
		return t.patterns.write(out, t.piece)
	}
	return append(out, piece...)
}

func (t *Stream) rest(out []byte) []byte {
	t.between = t.values.end(t.between[:0])
	if !t.byPattern() {
		return append(out, t.between...)
	}
	out = t.patterns.write(out, t.between)
	return t.patterns.end(out)
}

func (t *Stream) byPattern() bool { return t.patterns.assigned == anything || !t.r.off.Load() }

// Writer is for logs: what is written is looked through write by write, and with the widest patterns. It writes to w.
func (r *Redactor) Writer(w io.Writer) io.Writer { return logWriter{r, w} }

type logWriter struct {
	r *Redactor
	w io.Writer
}

func (l logWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(l.w, l.r.text(string(b), anything)); err != nil {
		return 0, err
	}
	return len(b), nil
}
