// Package ignore reads .gitignore files and says which files they exclude.
//
// It owns the patterns and their precedence, as gitignore(5) describes them. It does not know where the files are read from.
//
// Start with [Parse].
package ignore

import (
	"path"
	"strings"
)

// List is the patterns of one file, and those of the folders above. The zero List, and a nil one, exclude nothing.
type List struct {
	parent *List
	rules  []rule // the last one that matches applies
	depth  int    // elements of the path of the folder
}

// rule is one pattern.
type rule struct {
	negate  bool
	folders bool     // it matches only folders
	name    string   // matches the last element of a path: a literal, or a pattern
	suffix  string   // name is "*" and this literal
	literal bool     // name is one
	parts   []string // of a pattern that is relative to the folder; nil: name applies
}

// maxRules limits the patterns of a file; the rest is left out. Each file of a search is compared with each.
const maxRules = 2000

// Parse reads the patterns of a file in a folder. dir is the folder's path with slashes, relative to that of all paths, or "". The
// patterns of parent apply where none of these matches.
func Parse(parent *List, dir, text string) *List {
	l := &List{parent: parent}
	if dir != "" {
		l.depth = strings.Count(dir, "/") + 1
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		if r, ok := parse(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")); ok && len(l.rules) < maxRules {
			l.rules = append(l.rules, r)
		}
	}
	if len(l.rules) == 0 {
		return parent
	}
	return l
}

// parse reads one line. ok is false if there is no pattern, or none that matches anything.
func parse(line string) (r rule, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = strings.TrimSuffix(line, " ")
	}
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line, r.negate = strings.CutPrefix(line, "!"); line == "" {
		return r, false
	}
	if line, r.folders = strings.CutSuffix(line, "/"); line == "" {
		return r, false
	}
	if !strings.Contains(line, "/") {
		r.name, r.literal, ok = translate(line)
		if rest, star := strings.CutPrefix(r.name, "*"); ok && star && rest != "" && !strings.ContainsAny(rest, `*?[\`) {
			r.suffix = rest
		}
		return r, ok
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(line, "/"), "/") {
		if part != "**" {
			var literal bool
			if part, literal, ok = translate(part); !ok {
				return r, false
			}
			if literal { // as a pattern, like the other parts
				part = escape(part)
			}
		}
		r.parts = append(r.parts, part)
	}
	return r, true
}

// Excludes reports whether a file or folder is excluded, provided that no folder above it is. parts are the elements of its path.
func (l *List) Excludes(parts []string, folder bool) bool {
	for ; l != nil; l = l.parent {
		below := parts[min(l.depth, len(parts)):]
		for i := len(l.rules) - 1; i >= 0; i-- {
			if l.rules[i].matches(below, folder) {
				return !l.rules[i].negate
			}
		}
	}
	return false
}

func (r *rule) matches(parts []string, folder bool) bool {
	if r.folders && !folder || len(parts) == 0 {
		return false
	}
	if r.parts != nil {
		return matchParts(r.parts, parts)
	}
	name := parts[len(parts)-1]
	switch {
	case r.literal:
		return name == r.name
	case r.suffix != "":
		return strings.HasSuffix(name, r.suffix)
	}
	ok, _ := path.Match(r.name, name)
	return ok
}

// matchParts matches a path with a pattern. It looks at each pair of elements at most once per "**", of which it needs only the last.
func matchParts(pattern, parts []string) bool {
	i, j := 0, 0
	star, at := -1, 0 // the last "**", and where it was last tried
	for j < len(parts) {
		switch {
		case i < len(pattern) && pattern[i] == "**":
			if i == len(pattern)-1 { // everything below
				return true
			}
			star, at = i, j
			i++
			continue
		case i < len(pattern) && matchPart(pattern[i], parts[j]):
			i, j = i+1, j+1
			continue
		case star >= 0:
			at++
			i, j = star+1, at
			continue
		}
		return false
	}
	return i == len(pattern)
}

func matchPart(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// escape returns the pattern of a literal.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// classes are the character classes of brackets, as ranges.
var classes = map[string]string{
	"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \t", "cntrl": "\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z",
	"print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \t-\r", "upper": "A-Z", "xdigit": "0-9a-fA-F",
}

// translate returns a part of a pattern in the language of [path.Match], or as a literal if it has no wildcards. ok is false if the part
// matches nothing.
func translate(part string) (out string, literal, ok bool) {
	var b, plain strings.Builder
	literal = true
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '\\':
			if i++; i == len(part) {
				return "", false, false
			}
			b.WriteByte('\\')
			b.WriteByte(part[i])
			plain.WriteByte(part[i])
		case '*', '?':
			literal = false
			b.WriteByte(c)
		case '[':
			set, n, ok := bracket(part[i+1:])
			if !ok {
				return "", false, false
			}
			literal = false
			b.WriteString(set)
			i += n
		default:
			b.WriteByte(c)
			plain.WriteByte(c)
		}
	}
	if literal {
		return plain.String(), true, true
	}
	if _, err := path.Match(b.String(), ""); err != nil {
		return "", false, false
	}
	return b.String(), false, true
}

// bracket translates a set, after its "[". n is the length of what it has read.
func bracket(rest string) (set string, n int, ok bool) {
	var b strings.Builder
	b.WriteByte('[')
	i := 0
	if i < len(rest) && (rest[i] == '!' || rest[i] == '^') {
		b.WriteByte('^')
		i++
	}
	for first := true; i < len(rest); first = false {
		switch c := rest[i]; {
		case c == ']' && !first:
			b.WriteByte(']')
			return b.String(), i + 1, true
		case c == '[' && strings.HasPrefix(rest[i:], "[:"):
			name, _, closed := strings.Cut(rest[i+2:], ":]")
			ranges, known := classes[name]
			if !closed || !known {
				return "", 0, false
			}
			b.WriteString(ranges)
			i += len(name) + 4
			continue
		case c == '\\':
			if i++; i == len(rest) {
				return "", 0, false
			}
			b.WriteByte('\\')
			b.WriteByte(rest[i])
		case c == '-' && !first && i+1 < len(rest) && rest[i+1] != ']':
			b.WriteByte('-')
		case strings.IndexByte(`]-^[`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
		i++
	}
	return "", 0, false
}
