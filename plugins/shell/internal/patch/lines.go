package patch

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const byteOrderMark = "\uFEFF"

// text is the content of a file as lines with their endings. Joining them results in the same bytes.
type text struct {
	mark  string // the byte order mark; not part of line 1, which can then be matched
	lines []fileLine
	eol   string // ending of new lines: that of the first line
	// eightBit says that the content is not UTF-8. Such a file can still be edited, but only ASCII text can be inserted, because
	// its encoding is not known.
	eightBit bool
}

type fileLine struct{ text, eol string }

// splitText splits content at LF, CR LF and CR.
func splitText(content string) text {
	t := text{eol: "\n", eightBit: !utf8.ValidString(content)}
	if rest, ok := strings.CutPrefix(content, byteOrderMark); ok {
		t.mark, content = byteOrderMark, rest
	}
	t.lines = make([]fileLine, 0, strings.Count(content, "\n")+1)
	for content != "" {
		i := strings.IndexAny(content, "\r\n")
		if i < 0 {
			t.lines = append(t.lines, fileLine{text: content})
			break
		}
		n := 1
		if content[i] == '\r' && i+1 < len(content) && content[i+1] == '\n' {
			n = 2
		}
		t.lines = append(t.lines, fileLine{text: content[:i], eol: content[i : i+n]})
		content = content[i+n:]
	}
	if len(t.lines) > 0 && t.lines[0].eol != "" {
		t.eol = t.lines[0].eol
	}
	return t
}

// join returns the content. The last line gets an ending if it has none.
func (t *text) join() string {
	var b strings.Builder
	b.WriteString(t.mark)
	for _, l := range t.lines {
		b.WriteString(l.text)
		if l.eol == "" {
			l.eol = t.eol
		}
		b.WriteString(l.eol)
	}
	return b.String()
}

// checkText returns an error if content can't be edited as text. Invalid UTF-8 is accepted, because the content may have an 8-bit encoding,
// but not NUL bytes or a UTF-16 byte order mark.
func checkText(content string) error {
	if utf8.ValidString(content) {
		return nil
	}
	if strings.HasPrefix(content, "\xff\xfe") || strings.HasPrefix(content, "\xfe\xff") ||
		strings.IndexByte(content, 0) >= 0 {
		return invalidUTF8(content)
	}
	return nil
}

// invalidUTF8 returns an error with the position of the first invalid byte.
func invalidUTF8(content string) error {
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRuneInString(content[i:])
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRuneInString(content[i:]) {
				return fmt.Errorf("incomplete utf-8 byte sequence from index %d", i)
			}
			return fmt.Errorf("invalid utf-8 sequence of %d bytes from index %d", invalidLength(content[i:]), i)
		}
		i += size
	}
	return errors.New("invalid utf-8") // unreachable: content is invalid
}

// invalidLength returns the number of bytes at the beginning of s that could be the beginning of a character: 1 to 3.
func invalidLength(s string) int {
	n := 1
	for k := 2; k <= 3 && k <= len(s) && !utf8.FullRuneInString(s[:k]); k++ {
		n = k
	}
	return n
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
