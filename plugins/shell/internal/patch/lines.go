package patch

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const byteOrderMark = "\uFEFF"

// text is the content of a file as lines, each with the ending that it has. Putting them together again gives the same
// bytes.
type text struct {
	mark  string // a byte order mark; it belongs to no line, so that line 1 can be matched
	lines []fileLine
	eol   string // what new lines get: the file's first ending
	// eightBit: bytes that are not UTF-8. The file is still edited line by line, as long as nothing is put into it whose
	// encoding would have to be guessed.
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

// join puts the text together; each line gets an ending.
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

// checkText tells whether content can be edited as text. Bytes outside UTF-8 are fine in an 8-bit encoding, where a line
// is still a line; with NUL bytes or the mark of UTF-16 it is not.
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

// invalidUTF8 says where content stops being UTF-8.
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
	return errors.New("invalid utf-8") // not for valid content
}

// invalidLength is how many bytes at the start of s could have begun a character: 1 to 3.
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
