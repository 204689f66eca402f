package patch

import (
	"slices"
	"strings"
	"unicode"
)

// matcher finds lines in a file in several passes with increasingly loose comparison. Each pass searches the entire range before the next
// one, so that an exact match is preferred to a closer loose match.
type matcher struct {
	lines []fileLine
	loose [passes][]string // the normalized lines of each pass, computed on first use
}

const passes = 4

// normal returns s as it is compared in a pass.
func normal(pass int, s string) string {
	switch pass {
	case 1:
		return strings.TrimRightFunc(s, unicode.IsSpace)
	case 2:
		return strings.TrimSpace(s)
	case 3:
		// The model has seen U+FFFD in place of each invalid byte; Map converts those of the file in the same way.
		return strings.Map(foldRune, strings.TrimSpace(s))
	}
	return s
}

// foldRune maps typographic characters to the ASCII characters that models write instead.
func foldRune(r rune) rune {
	switch {
	case r >= 0x2010 && r <= 0x2015, r == 0x2212:
		return '-'
	case r >= 0x2018 && r <= 0x201B:
		return '\''
	case r >= 0x201C && r <= 0x201F:
		return '"'
	case r == 0xA0, r >= 0x2002 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
		return ' '
	}
	return r // invalid bytes have become U+FFFD
}

func (m *matcher) linesFor(pass int) []string {
	if m.loose[pass] == nil {
		m.loose[pass] = make([]string, len(m.lines))
		for i, l := range m.lines {
			m.loose[pass][i] = normal(pass, l.text)
		}
	}
	return m.loose[pass]
}

// seek returns the index of the first match of pattern at or after start. With eof, it matches only at the end of the file. The pattern
// must not be empty.
func (m *matcher) seek(pattern []string, start int, eof bool) (int, bool) {
	last := len(m.lines) - len(pattern)
	if last < 0 {
		return 0, false
	}
	if eof {
		start = max(start, last)
	}
	want := make([]string, len(pattern))
	for pass := range passes {
		if start > last {
			break
		}
		for i, p := range pattern {
			want[i] = normal(pass, p)
		}
		lines := m.linesFor(pass)
		for at := start; at <= last; at++ {
			if slices.Equal(lines[at:at+len(want)], want) {
				return at, true
			}
		}
	}
	return 0, false
}
