// Package glob implements the patterns for files that processes must not read or write.
//
// It owns the patterns and what they match. It does not know why access is denied or how files are found.
//
// Start with [Parse]. Patterns ignore case: many file systems do, and what is denied to a program should not depend on how it
// spells a name.
package glob

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern is an absolute path whose parts may contain "*" (any characters), "?" (one character) and "[a-z]" (one of these), or be
// "**" (any number of parts, including none). An unclosed "[" and characters after a backslash are literal. A Pattern matches the
// paths that it describes and everything below them. The zero Pattern matches nothing.
type Pattern struct {
	text  string
	base  string   // the parts before the first one with a wildcard
	parts []string // the remaining parts; if empty, base is the whole path
}

// maxPattern limits the length of a pattern to that of the longest path in Linux.
const maxPattern = 4096

// Parse parses a pattern.
func Parse(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, fmt.Errorf("empty pattern: use a path, or a pattern like \"**/*.pem\"")
	case len(text) > maxPattern:
		return Pattern{}, fmt.Errorf("pattern %.40q... is too long for a path", text)
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return Pattern{}, fmt.Errorf("pattern %q contains bytes that are invalid in a path", text)
	case text[0] != '/':
		return Pattern{}, fmt.Errorf("pattern %q is not absolute", text)
	}
	p := Pattern{text: text, base: "/"}
	for part := range strings.SplitSeq(text, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return Pattern{}, fmt.Errorf("pattern %q contains \"..\", whose meaning depends on symbolic links; use the resulting path", text)
		case len(p.parts) > 0 && part == "**" && p.parts[len(p.parts)-1] == "**":
			continue
		}
		name, plain := literal(part)
		if plain && len(p.parts) == 0 {
			p.base = path.Join(p.base, name)
			continue
		}
		if part != "**" {
			part = closed(part)
			if _, err := path.Match(part, ""); err != nil {
				return Pattern{}, fmt.Errorf("pattern %q: invalid %q; escape literal characters with a backslash", text, part)
			}
		}
		p.parts = append(p.parts, strings.ToLower(part))
	}
	for len(p.parts) > 0 && p.parts[len(p.parts)-1] == "**" { // a match includes everything below it anyway
		p.parts = p.parts[:len(p.parts)-1]
		if len(p.parts) == 0 && p.base == "/" {
			return Pattern{}, fmt.Errorf("pattern %q matches everything", text)
		}
	}
	switch {
	case len(p.parts) == 0 && p.base == "/":
		return Pattern{}, fmt.Errorf("pattern %q matches everything", text)
	case len(p.parts) > 0 && p.base == "/":
		return Pattern{}, fmt.Errorf("pattern %q doesn't start with a folder, so the whole machine would be searched; add a folder at "+
			"the beginning", text)
	}
	return p, nil
}

// Below returns the pattern that matches pattern below the literal path dir.
func Below(dir, pattern string) string {
	return strings.TrimSuffix(Quote(dir), "/") + "/" + pattern
}

// Quote returns the pattern that matches only name.
func Quote(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// literal returns a part without its escapes. plain is false if the part has wildcards.
func literal(part string) (name string, plain bool) {
	if part = closed(part); !strings.ContainsAny(part, `\*?[`) {
		return part, true
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '*', '?', '[':
			return "", false
		case '\\':
			if i++; i == len(part) {
				return "", false
			}
			b.WriteByte(part[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// closed escapes each unclosed "[".
func closed(part string) string {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case c == '\\' && i+1 < len(part):
			b.WriteString(part[i : i+2])
			i++
		case c == '[' && closing(part[i+1:]) < 0:
			b.WriteString(`\[`)
		case c == '[':
			end := i + 1 + closing(part[i+1:])
			b.WriteString(part[i : end+1])
			i = end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// closing returns the index of the "]" that closes a "[", or -1. The set must not be empty.
func closing(rest string) int {
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case rest[i] == ']' && strings.Trim(rest[:i], "^") != "":
			return i
		}
	}
	return -1
}

// String returns the pattern as written.
func (p Pattern) String() string { return p.text }

// Path returns the path of a pattern without wildcards; ok is false for other patterns.
func (p Pattern) Path() (name string, ok bool) { return p.base, len(p.parts) == 0 && p.base != "" }

// Base returns the folder that contains all matches. For a pattern without wildcards it is the path itself.
func (p Pattern) Base() string { return p.base }

// Parts returns the parts below the base in lower case: each is "**" or a pattern for [path.Match]. A pattern without wildcards
// has none.
func (p Pattern) Parts() (base string, parts []string) { return p.base, slices.Clone(p.parts) }

// AnyFolder reports whether the pattern only tests the last part of a path, at any depth below the base.
func (p Pattern) AnyFolder() bool { return len(p.parts) == 2 && p.parts[0] == "**" }

// State is the set of positions that a path may have reached in a pattern.
type State []int

// Start returns the state at the pattern's base.
func (p Pattern) Start() State { return p.settle(State{0}) }

// settle adds the positions after each "**", which may match nothing.
func (p Pattern) settle(s State) State {
	for i := 0; i < len(s); i++ {
		if at := s[i]; at < len(p.parts) && p.parts[at] == "**" {
			s = add(s, at+1)
		}
	}
	return s
}

func add(s State, at int) State {
	for _, x := range s {
		if x == at {
			return s
		}
	}
	return append(s, at)
}

// Step advances the state by one name. matched reports whether the pattern matches the path so far. No path continues from an
// empty state.
func (p Pattern) Step(s State, name string) (next State, matched bool) {
	name = strings.ToLower(name)
	for _, at := range s {
		switch {
		case at >= len(p.parts):
		case p.parts[at] == "**":
			next = add(next, at)
		default:
			if ok, _ := path.Match(p.parts[at], name); ok {
				next = add(next, at+1)
			}
		}
	}
	next = p.settle(next)
	for _, at := range next {
		matched = matched || at == len(p.parts)
	}
	return next, matched
}

// Match returns the longest prefix of name, which must be absolute and clean, that the pattern matches, or "".
func (p Pattern) Match(name string) string {
	if p.base == "" {
		return ""
	}
	if len(p.parts) == 0 {
		if name == p.base || strings.HasPrefix(name, p.base+"/") {
			return p.base
		}
		return ""
	}
	rest, below := strings.CutPrefix(name, strings.TrimSuffix(p.base, "/")+"/")
	if !below {
		return ""
	}
	s, at, deepest := p.Start(), p.base, ""
	for part := range strings.SplitSeq(rest, "/") {
		var matched bool
		at = path.Join(at, part)
		if s, matched = p.Step(s, part); matched {
			deepest = at
		}
		if len(s) == 0 {
			break
		}
	}
	return deepest
}
