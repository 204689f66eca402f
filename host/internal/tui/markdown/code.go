package markdown

import (
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// language is as much of a language as colours need.
type language struct {
	names    []string
	line     []string // begin a comment up to the end of the line
	block    [2]string
	quotes   string // of strings
	keywords string // separated by spaces
}

// languages returns the languages by the names that fenced code uses. They are few, and each is a line: libraries for this read hundreds of
// definitions when the program starts.
func languages() []language {
	c := [2]string{"/*", "*/"}
	return []language{
		{[]string{"go", "golang"}, []string{"//"}, c, "\"'`", "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false"},
		{[]string{"js", "javascript", "ts", "typescript", "jsx", "tsx"}, []string{"//"}, c, "\"'`", "async await break case catch class const continue default delete do else enum export extends finally for from function if implements import in instanceof interface let new null of return static super switch this throw try type typeof undefined var void while yield true false"},
		{[]string{"py", "python"}, []string{"#"}, [2]string{}, "\"'", "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield None True False self"},
		{[]string{"sh", "bash", "shell", "zsh", "console"}, []string{"#"}, [2]string{}, "\"'", "case do done elif else esac export fi for function if in local read return set then until while"},
		{[]string{"rust", "rs"}, []string{"//"}, c, "\"", "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait type unsafe use where while true false"},
		{[]string{"c", "h", "cpp", "c++", "cc", "hpp"}, []string{"//"}, c, "\"'", "auto break case char class const continue default delete do double else enum extern float for if inline int long namespace new private protected public return short signed sizeof static struct switch template this throw try typedef union unsigned using virtual void volatile while nullptr true false"},
		{[]string{"java", "kotlin", "kt", "swift", "cs", "csharp", "scala"}, []string{"//"}, c, "\"'", "abstract class const else enum extends final for fun func if implements import interface internal let new null override package private protected public return static struct super switch this throw try val var void when while true false nil"},
		{[]string{"rb", "ruby"}, []string{"#"}, [2]string{}, "\"'", "begin class def do else elsif end ensure for if in module next nil not or and require rescue return self super then unless until when while yield true false"},
		{[]string{"json", "jsonc"}, []string{"//"}, [2]string{}, "\"", "true false null"},
		{[]string{"yaml", "yml", "toml", "hcl", "tf", "ini", "dockerfile", "make", "makefile"}, []string{"#"}, [2]string{}, "\"'", "true false null yes no"},
		{[]string{"sql"}, []string{"--"}, c, "'\"", "select from where and or not insert into values update set delete create table index primary key join left inner outer on group by order limit null as distinct SELECT FROM WHERE AND OR NOT INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX PRIMARY KEY JOIN LEFT INNER OUTER ON GROUP BY ORDER LIMIT NULL AS DISTINCT"},
	}
}

// Highlight returns code in colours. name is the language that the author gave; that of an unknown language has none.
func Highlight(code, name string) []term.Span {
	name = strings.ToLower(name)
	if name == "diff" || name == "patch" {
		return diff(code)
	}
	all := languages()
	i := slices.IndexFunc(all, func(l language) bool { return slices.Contains(l.names, name) })
	if i < 0 {
		return []term.Span{{Text: code, Style: theme.Text}}
	}
	l := all[i]
	keywords := map[string]bool{}
	for k := range strings.FieldsSeq(l.keywords) {
		keywords[k] = true
	}
	var out []term.Span
	add := func(n int, style term.Style) {
		if k := len(out); k > 0 && out[k-1].Style == style {
			out[k-1].Text += code[:n]
		} else {
			out = append(out, term.Span{Text: code[:n], Style: style})
		}
		code = code[n:]
	}
	for code != "" {
		n, style := l.token(code, keywords)
		add(n, style)
	}
	return out
}

// token returns the length and the style of the first token of code.
func (l *language) token(code string, keywords map[string]bool) (int, term.Style) {
	for _, c := range l.line {
		if strings.HasPrefix(code, c) {
			if n := strings.IndexByte(code, '\n'); n >= 0 {
				return n, theme.Comment
			}
			return len(code), theme.Comment
		}
	}
	if l.block[0] != "" && strings.HasPrefix(code, l.block[0]) {
		if n := strings.Index(code[len(l.block[0]):], l.block[1]); n >= 0 {
			return n + len(l.block[0]) + len(l.block[1]), theme.Comment
		}
		return len(code), theme.Comment
	}
	c := code[0]
	switch {
	case strings.IndexByte(l.quotes, c) >= 0:
		return quoted(code), theme.String
	case letter(c):
		n := 1
		for n < len(code) && (letter(code[n]) || digit(code[n])) {
			n++
		}
		if keywords[code[:n]] {
			return n, theme.Keyword
		}
		return n, theme.Text
	case digit(c):
		n := 1
		for n < len(code) && (digit(code[n]) || letter(code[n]) || code[n] == '.') {
			n++
		}
		return n, theme.Number
	}
	return 1, theme.Text
}

// quoted returns the length of a string up to its closing quote, or to the end of the line; backquotes may span lines.
func quoted(code string) int {
	for i := 1; i < len(code); i++ {
		switch {
		case code[i] == '\\' && code[0] != '`':
			i++
		case code[i] == code[0]:
			return i + 1
		case code[i] == '\n' && code[0] != '`':
			return i
		}
	}
	return len(code)
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// diff colours added and removed lines.
func diff(code string) []term.Span {
	var out []term.Span
	for line := range strings.Lines(code) {
		style := theme.Text
		switch line[0] {
		case '+':
			style = theme.Good
		case '-':
			style = theme.Bad
		case '@':
			style = theme.Dim
		}
		out = append(out, term.Span{Text: line, Style: style})
	}
	return out
}
