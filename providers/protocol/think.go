package protocol

import "strings"

// ThinkSplitter separates thinking from a text that contains it in tags. A tag may be split, so the end of the text is held back
// while it may be the beginning of a tag.
type ThinkSplitter struct {
	tags   ThinkTags
	inside bool
	rest   string // not emitted yet
	closed bool
}

// NewThinkSplitter returns a splitter for one response.
func NewThinkSplitter(t ThinkTags) *ThinkSplitter {
	return &ThinkSplitter{tags: t, inside: t.StartInside}
}

// Write appends text.
func (s *ThinkSplitter) Write(text string) { s.rest += text }

// Close ends the text: an incomplete tag is text.
func (s *ThinkSplitter) Close() { s.closed = true }

// Next returns the next part of the text, and whether it is thinking. ok is false if more text is needed.
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

// overlap returns the length of the longest suffix of text that is a prefix of mark.
func overlap(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
