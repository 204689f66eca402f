package protocol

import (
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

const replacement = "\uFFFD"

func validText(s string) string { return strings.ToValidUTF8(s, replacement) }

// validJSON makes JSON text valid UTF-8 without escapes of lone surrogates, which vendors reject.
func validJSON(s string) string {
	s = validText(s)
	var b strings.Builder
	from := 0
	for at := strings.IndexByte(s, '\\'); at >= 0 && at < len(s); {
		next := at + 2
		if unit, ok := escaped(s, at); ok {
			next = at + 6
			switch second, paired := escaped(s, next); {
			case unit < 0xD800 || unit > 0xDFFF:
			case unit < 0xDC00 && paired && second >= 0xDC00 && second <= 0xDFFF:
				next += 6
			default:
				b.WriteString(s[from:at])
				b.WriteString(`\ufffd`)
				from = next
			}
		}
		if next >= len(s) {
			break
		}
		if at = strings.IndexByte(s[next:], '\\'); at >= 0 {
			at += next
		}
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	return b.String()
}

// escaped returns the code unit of the escape \uXXXX at i.
func escaped(s string, i int) (unit uint64, ok bool) {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
	return unit, err == nil
}

// Note returns the text of a host message: its texts, each on a separate line.
func Note(m llm.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if t, ok := p.(*llm.Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// SystemUpdate wraps a note of the host within a history, for formats that have no role for it.
func SystemUpdate(text string) string {
	return "<system-update>\n" + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text) + "\n</system-update>"
}
