package diag

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// maxSnippetLines limits a snippet, because a range in a file with syntax errors can be the whole file.
const maxSnippetLines = 3

// snippet returns the lines of r, or nil if the file's text is unknown.
func (f Files) snippet(r hcl.Range) *Snippet {
	src, ok := f[r.Filename]
	if !ok || r.Start.Byte < 0 || r.Start.Byte > len(src) {
		return nil
	}
	from := bytes.LastIndexByte(src[:r.Start.Byte], '\n') + 1
	to := from
	for range maxSnippetLines {
		n := bytes.IndexByte(src[to:], '\n')
		if n < 0 {
			to = len(src)
			break
		}
		to += n + 1
		if to > r.End.Byte {
			break
		}
	}
	code := strings.TrimRight(string(src[from:to]), "\r\n")
	s := &Snippet{Code: Mask(code), StartLine: r.Start.Line}
	s.HighlightStart = min(r.Start.Byte-from, len(code))
	s.HighlightEnd = min(max(r.End.Byte-from, s.HighlightStart), len(code))
	if s.Code != code { // masking invalidates the offsets
		s.HighlightStart, s.HighlightEnd = 0, len(s.Code)
	}
	if strings.HasPrefix(r.Filename, SetFile) {
		s.StartLine = 0
	}
	return s
}

// masked replaces a secret.
const masked = "(hidden)"

// Mask masks text that looks like a secret in lines of configuration: the rest of a line after `api_key =`, `"token":` and similar
// names, unless the value is a function call, and passwords in URLs. It keeps keys in snippets out of bug reports.
func Mask(code string) string {
	if !strings.ContainsAny(code, "=:") {
		return code
	}
	lines := strings.SplitAfter(code, "\n")
	for i, line := range lines {
		body := strings.TrimRight(line, "\r\n")
		if cut := secretAt(body); cut >= 0 {
			lines[i] = body[:cut] + masked + line[len(body):]
		} else if strings.Contains(body, "://") {
			lines[i] = maskURLs(body) + line[len(body):]
		}
	}
	return strings.Join(lines, "")
}

// maskURLs masks the passwords in URLs: the text between the first ":" after "://" and the last "@" of the same word.
func maskURLs(line string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(line, "://")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("://")
		end := strings.IndexAny(rest, " \t\"'`")
		if end < 0 {
			end = len(rest)
		}
		from, to := strings.IndexByte(rest[:end], ':'), strings.LastIndexByte(rest[:end], '@')
		if from >= 0 && from < to {
			b.WriteString(rest[:from+1] + masked + rest[to:end])
		} else {
			b.WriteString(rest[:end])
		}
		line = rest[end:]
	}
}

// secretAt returns the index in line where a secret begins, or -1.
func secretAt(line string) int {
	for i := 0; i < len(line); i++ {
		if line[i] != '=' && line[i] != ':' {
			continue
		}
		name := strings.TrimRight(line[:i], " \t")
		name = strings.TrimSuffix(name, `"`)
		if j := strings.LastIndexFunc(name, func(r rune) bool { return !isNameRune(r) }); j >= 0 {
			name = name[j+1:]
		}
		if !secretName(name) {
			continue
		}
		j := i + 1
		for j < len(line) && (line[j] == ' ' || line[j] == '\t') {
			j++
		}
		if j < len(line) && line[j] != '=' && hides(line[j:]) {
			return j
		}
	}
	return -1
}

// MaskValue masks the value of a setting whose name suggests a secret, unless a function computes the value or it contains no
// text.
func MaskValue(name, value string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	if secretName(name) && hides(value) {
		return masked
	}
	return value
}

// hides reports whether the value of a setting with a secret's name must be masked. A function call keeps the secret out of the
// text, and a list or object without quotation marks contains none on this line.
func hides(value string) bool {
	for _, f := range []string{"command(", "env(", "file(", "secret(", "null", "true", "false"} {
		if strings.HasPrefix(value, f) {
			return false
		}
	}
	if value[0] == '[' || value[0] == '{' {
		return strings.Contains(value, `"`)
	}
	return true
}

// secretName reports whether settings with this name usually contain a secret.
func secretName(name string) bool {
	n := strings.ToLower(name)
	for _, part := range []string{"secret", "passw", "credential", "authorization", "cookie", "bearer"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return strings.HasSuffix(n, "key") || strings.HasSuffix(n, "token") || strings.HasSuffix(n, "dsn")
}

func isNameRune(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
