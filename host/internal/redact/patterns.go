package redact

import "strings"

// maxRun is how long a run of characters may be of which it is not clear whether it is a secret. One that is longer counts
// as one: nothing else that has a secret's name before it, and its characters, is that long.
const maxRun = 4096

// maxGap is how many spaces may stand between a name and what is assigned to it.
const maxGap = 16

// mode is where in a pattern a stream is.
type mode int

const (
	scanning   mode = iota // for a keyword
	gap                    // between the keyword and the secret
	running                // in what may be a secret
	swallowing             // in a secret
)

// patternStream replaces what looks like a secret in a stream.
type patternStream struct {
	assigned *rule // what is taken for a secret behind a name

	mode    mode
	state   int32 // of keywords, while scanning
	rule    *rule
	signed  bool   // the colon or equals sign was there
	spaces  int    // in the gap
	held    []byte // not shown yet
	prev    byte   // what stands before held, or before what comes next
	skip    int    // how much of a run is the keyword
	letters bool   // of the run
	digits  bool
}

func (s *patternStream) write(out, piece []byte) []byte {
	buf, i := piece, 0
	if len(s.held) > 0 {
		i = len(s.held)
		s.held = append(s.held, piece...)
		buf = s.held
	}
	done := 0 // what is before it was shown, or will not be
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
					i = done // what was assigned to a name may be a secret of another kind
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

// scan looks for a keyword from i on, and returns what is behind it; the mode says whether there is one.
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

// isKeyword reports whether a keyword that was found in buf[from:to] is one.
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

// inGap reports whether a byte belongs to what is between keyword and secret.
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

// beginRun is the end of the gap: c is the first byte of what may be a secret, or of something else.
func (s *patternStream) beginRun(c byte) {
	s.mode, s.state = scanning, 0
	if s.rule.chars[c] && s.spaces <= maxGap && (s.signed || s.rule.kind == afterSpace && s.spaces > 0) {
		s.mode = running
	}
}

// run goes on with what may be a secret, and returns where it ends.
func (s *patternStream) run(buf []byte, i int) int {
	for ; i < len(buf) && s.rule.chars[buf[i]]; i++ {
		c := buf[i]
		s.digits = s.digits || c >= '0' && c <= '9'
		s.letters = s.letters || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return i
}

// secret reports whether a run of n bytes, with its keyword, is a secret if nothing follows that speaks against it.
func (s *patternStream) secret(n int) bool {
	return n-s.skip >= s.rule.minLength && (!s.rule.digits || s.digits && s.letters)
}

// decided reports whether a run is a secret whatever follows.
func (s *patternStream) decided(n int) bool {
	return n > maxRun || s.rule.stops == "" && s.secret(n)
}

func (s *patternStream) stopped(c byte) bool { return strings.IndexByte(s.rule.stops, c) >= 0 }

// end is the end of the text.
func (s *patternStream) end(out []byte) []byte {
	if s.mode == running {
		if s.secret(len(s.held)) {
			out, s.held = append(out, Placeholder...), s.held[:0]
		} else if s.rule.kind != withKeyword { // as where a run ends, and what is looked at anew is shorter
			again := patternStream{assigned: s.assigned, prev: s.prev}
			out = again.end(again.write(out, s.held))
			s.held = s.held[:0]
		}
	}
	out = append(out, s.held...)
	*s = patternStream{assigned: s.assigned, held: s.held[:0]}
	return out
}
