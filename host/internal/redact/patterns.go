package redact

import "strings"

// maxRun is the maximum length of a run of characters that may turn out not to be a secret. A longer run is considered a secret:
// nothing else that follows a keyword and consists of such characters is that long.
const maxRun = 4096

// maxGap is the maximum number of spaces between a keyword and its secret.
const maxGap = 16

// mode is the position of a stream within a pattern.
type mode int

const (
	scanning   mode = iota // looking for a keyword
	gap                    // between the keyword and the secret
	running                // in a run that may be a secret
	swallowing             // in a secret
)

// patternStream replaces text that looks like a secret in a stream.
type patternStream struct {
	assigned *rule // the rule for values that are assigned to a name

	mode    mode
	state   int32 // of keywords, while scanning
	rule    *rule
	signed  bool   // the colon or equals sign was there
	spaces  int    // in the gap
	held    []byte // not shown yet
	prev    byte   // the byte before held, or before the next piece
	skip    int    // length of the keyword at the beginning of the run
	letters bool   // the run contains letters
	digits  bool   // the run contains digits
}

func (s *patternStream) write(out, piece []byte) []byte {
	buf, i := piece, 0
	if len(s.held) > 0 {
		i = len(s.held)
		s.held = append(s.held, piece...)
		buf = s.held
	}
	done := 0 // buf[:done] is processed
	for i < len(buf) {
		switch s.mode {
		case scanning:
			if i = s.scan(buf, i); s.mode == scanning {
				break
			}
			begin := i - s.skip
			out, done = append(out, buf[done:begin]...), begin
		case gap:
			for i < len(buf) && s.inGap(buf[i]) {
				i++
			}
			out, done = append(out, buf[done:i]...), i
			if i < len(buf) {
				s.beginRun(buf[i])
			}
		case running:
			i = s.run(buf, i)
			switch {
			case i == len(buf) && !s.decided(i-done):
			case i-done > maxRun || s.secret(i-done) && (i == len(buf) || !s.stopped(buf[i])):
				s.mode = swallowing
				out, done = append(out, Placeholder...), i
			default:
				s.mode, s.state = scanning, 0
				if s.rule.kind != withKeyword {
					i = done // the value may match another rule
				}
			}
		case swallowing:
			for i < len(buf) && s.rule.chars[buf[i]] {
				i++
			}
			done = i
			if i < len(buf) {
				s.mode, s.state = scanning, 0
			}
		}
	}
	limit := len(buf)
	switch s.mode {
	case scanning:
		limit = max(done, len(buf)-int(keywords.hold[s.state]))
	case running:
		limit = done
	}
	out = append(out, buf[done:limit]...)
	if limit > 0 {
		s.prev = buf[limit-1]
	}
	s.held = append(s.held[:0], buf[limit:]...)
	return out
}

// scan looks for a keyword from i on and returns the position after it. If there is none, the mode is still scanning.
func (s *patternStream) scan(buf []byte, i int) int {
	state, f := s.state, keywords
	next, class, width := f.next, &f.class, int32(f.width)
	for i < len(buf) {
		state = next[state*width+int32(class[buf[i]])]
		i++
		r := f.rule[state]
		if r == nil || !s.isKeyword(r, buf, i-int(f.depth[state]), i) {
			continue
		}
		s.rule, s.mode, s.skip = r, gap, 0
		if r == credential {
			s.rule = s.assigned
		}
		s.signed, s.spaces, s.letters, s.digits = false, 0, false, false
		if r.kind == withKeyword {
			s.mode, s.skip = running, int(f.depth[state])
		}
		return i
	}
	s.state = state
	return i
}

// isKeyword reports whether buf[from:to] satisfies the rule's conditions for its keyword.
func (s *patternStream) isKeyword(r *rule, buf []byte, from, to int) bool {
	if !r.wholeWord {
		return true
	}
	before := s.prev
	if from > 0 {
		before = buf[from-1]
	}
	return !word(before) && (r.exact == "" || string(buf[from:to]) == r.exact)
}

func word(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// inGap reports whether a byte belongs to the gap between keyword and secret.
func (s *patternStream) inGap(c byte) bool {
	if c == ' ' || c == '\t' {
		s.spaces++
		return s.spaces <= maxGap
	}
	if s.rule.kind == afterSpace {
		return false
	}
	switch c {
	case '"', '\'', '`', '\\':
		return true
	case ':', '=':
		s.signed = true
		return true
	}
	return false
}

// beginRun ends the gap. c is the first byte after it, which may begin a secret.
func (s *patternStream) beginRun(c byte) {
	s.mode, s.state = scanning, 0
	if s.rule.chars[c] && s.spaces <= maxGap && (s.signed || s.rule.kind == afterSpace && s.spaces > 0) {
		s.mode = running
	}
}

// run continues a run from i on and returns the position after it.
func (s *patternStream) run(buf []byte, i int) int {
	for ; i < len(buf) && s.rule.chars[buf[i]]; i++ {
		c := buf[i]
		s.digits = s.digits || c >= '0' && c <= '9'
		s.letters = s.letters || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return i
}

// secret reports whether a run of n bytes, including its keyword, is a secret unless one of the rule's stops follows.
func (s *patternStream) secret(n int) bool {
	return n-s.skip >= s.rule.minLength && (!s.rule.digits || s.digits && s.letters)
}

// decided reports whether a run is a secret regardless of what follows.
func (s *patternStream) decided(n int) bool {
	return n > maxRun || s.rule.stops == "" && s.secret(n)
}

func (s *patternStream) stopped(c byte) bool { return strings.IndexByte(s.rule.stops, c) >= 0 }

// end processes the end of the text.
func (s *patternStream) end(out []byte) []byte {
	if s.mode == running {
		if s.secret(len(s.held)) {
			out, s.held = append(out, Placeholder...), s.held[:0]
		} else if s.rule.kind != withKeyword { // as in write; the recursion ends, because the held text is shorter each time
			again := patternStream{assigned: s.assigned, prev: s.prev}
			out = again.end(again.write(out, s.held))
			s.held = s.held[:0]
		}
	}
	out = append(out, s.held...)
	*s = patternStream{assigned: s.assigned, held: s.held[:0]}
	return out
}
