// Package glob is how files are named that nobody may read or write: a path, or a pattern of paths.
//
// It owns: the patterns and what they match. It must not know: what is kept from whom, how files are found.
//
// Start with [Parse]. Upper and lower case are the same to a pattern: on many file systems they are, and what is kept from a
// program should not depend on how it spells a name.
package glob

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern is an absolute path whose parts may have "*" (any characters), "?" (one) and "[a-z]" (one of these), or be "**": any
// number of parts, also none. A "[" that nothing closes stands for itself, as does what follows a backslash. A Pattern stands
// for what it matches and for all that lies below it. The zero Pattern matches nothing.
type Pattern struct {
	text  string
	base  string   // the parts in front of the first that is no plain name
	parts []string // the others; empty: base is the path
}

// maxPattern bounds a pattern: the longest path that the kernel takes.
const maxPattern = 4096

// Parse reads a pattern, or says what is wrong with it.
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
	for len(p.parts) > 0 && p.parts[len(p.parts)-1] == "**" { // what is below is meant anyway
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

// Below makes a pattern of a path in which nothing is special, and of a pattern that goes on from there.
func Below(dir, pattern string) string {
	return strings.TrimSuffix(Quote(dir), "/") + "/" + pattern
}

// Quote makes a pattern of a path that stands for that alone.
func Quote(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// literal is a part without what protects its characters; plain is false where it stands for more than one name.
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

// closed protects each "[" that nothing closes.
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

// closing is where a "]" closes what a "[" has opened; -1: nowhere. What it would close must not be empty.
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

// String is the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Path is what a pattern names that stands for one path only; ok is false for others.
func (p Pattern) Path() (name string, ok bool) { return p.base, len(p.parts) == 0 && p.base != "" }

// Base is the folder below which all lies that a pattern matches. Of a path it is the path.
func (p Pattern) Base() string { return p.base }

// Parts are what a pattern says of the names below its base, in small letters: each is "**" or in the language of [path.Match]. Of a
// path there are none.
func (p Pattern) Parts() (base string, parts []string) { return p.base, slices.Clone(p.parts) }

// AnyFolder reports whether only the last part of a path counts, wherever below the base it lies.
func (p Pattern) AnyFolder() bool { return len(p.parts) == 2 && p.parts[0] == "**" }

// State is how far a path has gone along a pattern: a set of positions in it.
type State []int

// Start is the state of a pattern's base.
func (p Pattern) Start() State { return p.settle(State{0}) }

// settle adds the positions behind each "**", which may stand for nothing.
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

// Step goes on by one name. matched: the path up to here is one that the pattern stands for. An empty state can't go on.
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

// Match returns the deepest path that the pattern stands for and that name, which is absolute and clean, is or lies below; ""
// where there is none.
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
