package policy

import (
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
)

// Typed is the text that was typed into a session and not executed yet. A command may be typed in pieces that are not commands themselves.
type Typed struct {
	Line string // the line that has not been entered
	All  string // also the lines before it, if the shell waits for the rest: of a quotation, a loop, or after a backslash
}

// maxTyped bounds it, in bytes. Of more text the end is kept, to which the next piece is added.
const maxTyped = 64 << 10

// After returns the text that is not executed yet after more was typed.
func (t Typed) After(text string) Typed {
	line, _ := edited(t.Line + text)
	line = line[strings.LastIndexByte(line, '\n')+1:]
	all, _ := edited(t.All + text)
	if i := strings.LastIndexByte(all, '\n'); i >= 0 && !command.Incomplete(all[:i+1]) {
		all = line
	}
	return Typed{Line: last(line), All: last(all)}
}

func last(s string) string {
	if over := len(s) - maxTyped; over > 0 {
		return strings.ToValidUTF8(s[over:], "")
	}
	return s
}

// scripts returns the scripts that a shell may execute if text is typed after t; the strictest decision on them applies. sure is false if
// that depends on the shell's line editor.
func (t Typed) scripts(text string) (out []string, sure bool) {
	sure = true
	out = []string{text}
	for _, s := range []string{t.Line + text, t.All + text} {
		e, ok := edited(s)
		sure = sure && ok
		out = union(out, []string{e})
	}
	return out, sure
}

// edited returns the text that a terminal or a line editor makes of keys. sure is false if some of them move the cursor, complete a word
// or recall a line.
func edited(keys string) (line string, sure bool) {
	out := make([]byte, 0, len(keys))
	begin := func() int { return strings.LastIndexByte(string(out), '\n') + 1 }
	sure = true
	for _, c := range keys {
		switch c {
		case '\r', '\n':
			out = append(out, '\n')
		case '\b', 0x7f:
			if len(out) > begin() {
				_, n := utf8.DecodeLastRune(out)
				out = out[:len(out)-n]
			}
		case 0x03, 0x15: // Ctrl-C and Ctrl-U discard the line
			out = out[:begin()]
		case 0x17: // Ctrl-W discards a word
			end := strings.TrimRight(string(out[begin():]), " \t")
			cut := strings.LastIndexAny(end, " \t") + 1
			out = out[:begin()+cut]
		case '\t':
			// It indents at the beginning of a line, and completes a word after one.
			sure = sure && strings.TrimSpace(string(out[begin():])) == ""
			out = append(out, '\t')
		case 0, 0x04, 0x07, 0x0c:
		default:
			if c < ' ' {
				sure = false
				continue
			}
			out = utf8.AppendRune(out, c)
		}
	}
	return string(out), sure
}
