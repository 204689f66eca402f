// Package redact removes secrets from text before it reaches a model, a front end or a log.
//
// It owns: the values that are known secrets, the patterns that recognise others, and finding both in text that arrives in pieces.
// It must not know: where a value comes from, what the text is, which component reads it.
//
// It protects against accidents, such as a program that prints a key. It is no protection against programs that encode a secret on
// purpose; environment and sandbox keep secrets from these.
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

// Placeholder replaces a secret. It matches codex 0.169.
const Placeholder = "[REDACTED_SECRET]"

const (
	// minValue is the minimum length of a value, in bytes: shorter ones also occur as parts of words.
	minValue = 8
	// maxPiece is the maximum length of a value; longer ones are split into pieces.
	maxPiece = 256
	// maxValues limits the total size of all values. The automaton needs about 50 bytes of memory per byte.
	maxValues = 256 << 10
)

// Redactor removes secrets from text. It is safe for concurrent use. The zero Redactor knows no values, and nil changes nothing.
type Redactor struct {
	values atomic.Pointer[automaton] // nil: none

	mu    sync.Mutex
	known map[string]bool
	bytes int
	off   atomic.Bool // patterns
}

// DisablePatterns disables patterns, except for logs.
func (r *Redactor) DisablePatterns() { r.off.Store(true) }

// Add adds secret values. It ignores values that are too short. Existing streams use them from their next piece on.
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
			if strings.HasPrefix(line, "-----") { // the first or last line of a PEM block
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

// Text returns the text without secrets.
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

// Stream returns a stream for text that arrives in pieces.
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

// Stream removes secrets from text that arrives in pieces. To find a secret that is split between pieces, it holds back text that may
// be the beginning of one: at most the length of the longest value, or of a credential. It is not safe for concurrent use; nil
// changes nothing.
type Stream struct {
	r        *Redactor
	values   valueStream
	patterns patternStream
	piece    []byte // the current piece
	between  []byte // the text after removing values
}

// Write adds a piece and returns the text that is safe to show now, which may be empty.
func (t *Stream) Write(piece string) string {
	if t == nil {
		return piece
	}
	return string(t.feed(make([]byte, 0, len(piece)+16), piece))
}

// End returns the text that was held back, after redaction. Incomplete secrets in it are not redacted.
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

// Writer returns a writer for logs that writes to w. It redacts each write on its own, with the broadest patterns.
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
