package seatbelt

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gantry-agent/gantry/config/glob"
)

// Expressions match bytes. macOS's file systems mostly ignore case and the ways in which a character can be composed, so an
// expression matches every spelling of a name. In doubt it matches more, never less.

// other matches characters beyond printable ASCII, including parts of them.
const other = "[^ -~/]"

// Regexp returns a pattern as an expression for [Rule.Match].
func Regexp(p glob.Pattern) string {
	base, parts := p.Parts()
	return sequence(Literal(base), parts)
}

// Within returns expressions for what a pattern matches below a folder, one for each way in which the match can continue there.
// That the pattern matches the folder itself does not count.
func Within(p glob.Pattern, folder string) []string {
	base, parts := p.Parts()
	if base == folder && len(parts) > 0 || strings.HasPrefix(base, strings.TrimSuffix(folder, "/")+"/") {
		return []string{Regexp(p)} // all matches are below the folder
	}
	rest, below := strings.CutPrefix(folder, strings.TrimSuffix(base, "/")+"/")
	if !below || len(parts) == 0 {
		return nil
	}
	s := p.Start()
	for name := range strings.SplitSeq(rest, "/") {
		s, _ = p.Step(s, name)
	}
	var out []string
	for _, at := range s {
		if at < len(parts) {
			out = append(out, sequence(Literal(folder), parts[at:]))
		}
	}
	return out
}

// sequence appends the parts of a pattern to an expression for a path.
func sequence(base string, parts []string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(base, "/"))
	gap := true // a slash has to follow
	for _, part := range parts {
		if gap {
			b.WriteByte('/')
		}
		if gap = part != "**"; gap {
			b.WriteString(name(part))
		} else {
			b.WriteString("([^/]+/)*")
		}
	}
	return b.String()
}

// Literal returns an expression that matches one path in every spelling of it.
func Literal(path string) string {
	var b strings.Builder
	for len(path) > 0 {
		n := norm.NFC.NextBoundaryInString(path, true)
		written, composed := path[:n], norm.NFC.String(path[:n])
		path = path[n:]
		switch {
		case len([]rune(composed)) <= len([]rune(written)):
			b.WriteString(chars(composed))
		default: // some characters are always decomposed; the written form is the same name
			b.WriteString("(" + chars(composed) + "|" + chars(written) + ")")
		}
	}
	return b.String()
}

func chars(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(char(r))
	}
	return b.String()
}

// Named returns an expression for a name directly in a folder, including what some file systems treat as the same: letters that
// look alike, invisible characters.
func Named(folder, file string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(Literal(filepath.Clean(folder)), "/") + "/")
	for _, r := range file {
		b.WriteString(other + "*")
		if r == 's' || r == 'k' { // they have look-alikes beyond ASCII
			b.WriteString("(" + char(r) + "|" + other + "+)")
		} else {
			b.WriteString(char(r))
		}
	}
	b.WriteString(other + "*")
	return b.String()
}

// name converts one part of a pattern, in which "*", "?" and "[...]" are special.
func name(part string) string {
	var b strings.Builder
	runes := []rune(norm.NFC.String(part))
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '*':
			b.WriteString("[^/]*")
		case r == '?':
			b.WriteString("[^/]" + other + "*")
		case r == '[':
			text, end := class(runes[i+1:])
			b.WriteString(text)
			i += end
		case r == '\\' && i+1 < len(runes):
			i++
			b.WriteString(char(runes[i]))
		default:
			b.WriteString(char(r))
		}
	}
	return b.String()
}

// class converts a character class. end is its length, including the closing bracket.
func class(runes []rune) (text string, end int) {
	i := 0
	not := len(runes) > 0 && runes[0] == '^'
	if not {
		i++
	}
	next := func() rune {
		if runes[i] == '\\' && i+1 < len(runes) {
			i++
		}
		i++
		return runes[i-1]
	}
	set, beyond := map[byte]bool{}, false
	var more []string
	for first := true; i < len(runes) && (first || runes[i] != ']'); first = false {
		low := next()
		high := low
		if i+1 < len(runes) && runes[i] == '-' {
			i++
			high = next()
		}
		beyond = beyond || high >= utf8.RuneSelf
		for r := low; r <= min(high, utf8.RuneSelf-1); r++ {
			for _, v := range variants(r) {
				if v < utf8.RuneSelf {
					set[byte(v)] = true
				} else {
					more = append(more, string(v))
				}
			}
		}
	}
	if not {
		set['/'] = true
		return "[^" + choice(set) + "]" + other + "*", i + 1
	}
	delete(set, '/')
	var choices []string
	for _, c := range []byte(`]^-\`) { // special in a class, so they are alternatives of their own
		if set[c] {
			delete(set, c)
			choices = append(choices, `\`+string(c))
		}
	}
	if len(set) > 0 {
		choices = append(choices, "["+choice(set)+"]")
	}
	slices.Sort(more)
	if choices = append(choices, slices.Compact(more)...); beyond || len(choices) == 0 {
		choices = append(choices, "[^/]")
	}
	return "(" + strings.Join(choices, "|") + ")" + other + "*", i + 1
}

// choice returns the characters of a class in an order in which none of them is special after a "^".
func choice(set map[byte]bool) string {
	var first, rest, last string
	for c := byte(1); c < utf8.RuneSelf; c++ {
		switch {
		case !set[c]:
		case c == ']':
			first = "]"
		case c == '-':
			last = "-"
		case c == '\\': // special in some implementations of classes
			rest += `\\`
		default:
			rest += string(c)
		}
	}
	return first + rest + last
}

// char returns an expression for a character in all its spellings.
func char(r rune) string {
	all := variants(r)
	ascii := ""
	var more []string
	for _, v := range all {
		if v < utf8.RuneSelf {
			ascii += string(v)
			continue
		}
		for _, s := range []string{string(v), norm.NFD.String(string(v))} {
			if s = quote(s); !slices.Contains(more, s) {
				more = append(more, s)
			}
		}
	}
	one := ""
	switch len(ascii) {
	case 0:
	case 1:
		one = quote(ascii)
	default:
		one = "[" + ascii + "]" // letters
	}
	if len(more) == 0 {
		return one
	}
	if one != "" {
		more = append([]string{one}, more...)
	}
	if len(more) == 1 {
		return more[0]
	}
	return "(" + strings.Join(more, "|") + ")"
}

// variants returns the characters that are equal to r if case is ignored.
func variants(r rune) []rune {
	out := []rune{r}
	for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
		out = append(out, v)
	}
	const dottedI = 'İ' // some file systems fold it to i
	if unicode.ToLower(r) == 'i' {
		for _, v := range []rune{'i', 'I', dottedI} {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	for _, v := range slices.Clone(out) {
		out = append(out, singles()[v]...)
	}
	slices.Sort(out)
	return out
}

// singles maps a character to the single characters that are canonically equivalent to it: U+037E is a semicolon to a file system
// that normalizes names.
var singles = sync.OnceValue(func() map[rune][]rune {
	out := map[rune][]rune{}
	for _, block := range [][2]rune{{0x340, 0x3ff}, {0x1f00, 0x23ff}, {0xf900, 0xfaff}, {0x2f800, 0x2fa1f}} {
		for r := block[0]; r <= block[1]; r++ {
			if to := []rune(norm.NFC.String(string(r))); len(to) == 1 && to[0] != r {
				out[to[0]] = append(out[to[0]], r)
			}
		}
	}
	return out
})

// quote escapes what is special in an expression.
func quote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`\^$.|?*+()[]{}`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
