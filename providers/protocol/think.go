package protocol

import "strings"

// ThinkSplitter takes thinking out of a text that marks it. A mark may come in pieces, so that the end of a text waits as long
// as it could be the beginning of one.
type ThinkSplitter struct {
	tags   ThinkTags
	inside bool
	rest   string // not yet told
	closed bool
}

// NewThinkSplitter returns a splitter for one answer.
func NewThinkSplitter(t ThinkTags) *ThinkSplitter {
	return &ThinkSplitter{tags: t, inside: t.StartInside}
}

// Write takes the next piece of the text.
func (s *ThinkSplitter) Write(text string) { s.rest += text }

// Close says that nothing follows: what looked like the beginning of a mark was text.
func (s *ThinkSplitter) Close() { s.closed = true }

// Next returns the next stretch of text and whether it is thinking. ok is false when more must come first.
func (s *ThinkSplitter) Next() (text string, inside, ok bool) {
	for s.rest != "" {
		mark := s.tags.Open
		if s.inside {
			mark = s.tags.Close
		}
		inside = s.inside
		n, skip := len(s.rest), 0
		if mark == "" {
		} else if i := strings.Index(s.rest, mark); i >= 0 {
			n, skip = i, len(mark)
			s.inside = !s.inside
		} else if !s.closed {
			n -= overlap(s.rest, mark)
		}
		text, s.rest = s.rest[:n], s.rest[n+skip:]
		if text != "" {
			return text, inside, true
		}
		if skip == 0 {
			break
		}
	}
	return "", false, false
}

// overlap is how much of a text's end is the beginning of a mark.
func overlap(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
