package policy

import (
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
)

// Typed is what stands in front of what is typed next into a session. A command may come in pieces, and none of them is one.
type Typed struct {
	Line string // the line that has not been entered
	All  string // the same, with the lines before it that a shell is still waiting with: in quotes, in a loop, behind a backslash
}

// maxTyped bounds what is remembered of it. Of more the end stays, where the next piece is put.
const maxTyped = 64 << 10

// After is what stands there when text was typed behind it.
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

// scripts are what a shell may make of text that is typed behind t: each is one, and the strictest counts. sure false: it depends on
// what the shell's editor makes of keys.
func (t Typed) scripts(text string) (out []string, sure bool) {
	sure = true
	add := func(s string) {
		for _, o := range out {
			if o == s {
				return
			}
		}
		out = append(out, s)
	}
	add(text)
	for _, s := range []string{t.Line + text, t.All + text} {
		e, ok := edited(s)
		sure = sure && ok
		add(e)
	}
	return out, sure
}

// edited is what a terminal, or a shell's editor, makes of keys. Not sure: some of them move, complete or recall.
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
		case 0x03, 0x15: // what stands in the line is given up
			out = out[:begin()]
		case 0x17:
			end := strings.TrimRight(string(out[begin():]), " \t")
			cut := strings.LastIndexAny(end, " \t") + 1
			out = out[:begin()+cut]
		case '\t':
			// At the beginning of a line it indents; behind a word a shell completes it.
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
