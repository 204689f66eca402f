// Package gitconfig reads git's settings as git does, and says which of them name programs, folders of hooks, or further settings.
//
// It owns: the syntax of git's configuration files, includes, the table of settings by which git starts programs, and which
// settings are harmless. It must not know: what a sandbox is, what is done about a program that commands may write.
//
// Start with [Read]. It never runs git and trusts no file: size, depth and number are bounded.
package gitconfig

import (
	"errors"
	"fmt"
	"strings"
)

// Setting is one setting: section.subsection.key, of which only the subsection is case-sensitive.
type Setting struct {
	Section, Sub, Key string
	HasSub            bool // Sub may be empty
	Value             string
	Bare              bool   // without a value, which means true
	From              string // the file
}

// Name returns the setting's full name as git prints it.
func (s Setting) Name() string {
	if !s.HasSub {
		return strings.TrimPrefix(s.Section+"."+s.Key, ".")
	}
	return s.Section + "." + s.Sub + "." + s.Key
}

// maxFile bounds the size of a file. Git has no limit, but no real file is that large.
const maxFile = 1 << 20

var errSyntax = errors.New("bad config line")

// Parse parses a file. The settings before a line that git would reject are returned with the error.
func Parse(text []byte) ([]Setting, error) {
	p := parser{text: strings.TrimPrefix(string(text), "\xef\xbb\xbf"), line: 1}
	for {
		done, err := p.next()
		if err != nil {
			return p.out, fmt.Errorf("%w %d", err, p.line)
		}
		if done {
			return p.out, nil
		}
	}
}

type parser struct {
	text     string
	at, line int
	section  string // including the subsection, after a dot
	out      []Setting
}

const end = -1

// read returns the next character. CR LF is one line break.
func (p *parser) read() int {
	if p.at >= len(p.text) {
		p.at++
		return end
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		c = '\n'
		p.at++
	}
	if c == '\n' {
		p.line++
	}
	return int(c)
}

// next parses one header or setting.
func (p *parser) next() (done bool, err error) {
	switch c := p.read(); {
	case c == end:
		return true, nil
	case isSpace(c):
		return false, nil
	case c == '#' || c == ';':
		for c != '\n' && c != end {
			c = p.read()
		}
		return c == end, nil
	case c == '[':
		return false, p.header()
	case isAlpha(c):
		return false, p.setting(c)
	default:
		return false, errSyntax
	}
}

func (p *parser) header() error {
	var name strings.Builder
	for {
		switch c := p.read(); {
		case c == ']':
			p.section = name.String()
			return nil
		case isSpace(c) && c != '\n':
			return p.subsection(name.String())
		case isAlpha(c) || c >= '0' && c <= '9' || c == '-' || c == '.':
			name.WriteByte(lower(c))
		default:
			return errSyntax
		}
	}
}

// subsection parses the quoted part of a header.
func (p *parser) subsection(section string) error {
	c := p.read()
	for isSpace(c) && c != '\n' {
		c = p.read()
	}
	if c != '"' {
		return errSyntax
	}
	var sub strings.Builder
	for {
		switch c = p.read(); c {
		case '\n', end:
			return errSyntax
		case '"':
			if p.read() != ']' {
				return errSyntax
			}
			p.section = section + "." + sub.String()
			return nil
		case '\\':
			if c = p.read(); c == '\n' || c == end {
				return errSyntax
			}
		}
		sub.WriteByte(byte(c))
	}
}

func (p *parser) setting(c int) error {
	var key strings.Builder
	for isAlpha(c) || c >= '0' && c <= '9' || c == '-' {
		key.WriteByte(lower(c))
		c = p.read()
	}
	for c == ' ' || c == '\t' {
		c = p.read()
	}
	s := Setting{Key: key.String()}
	s.Section, s.Sub, s.HasSub = strings.Cut(p.section, ".") // [a.b] is an old spelling of [a "b"]
	switch c {
	case '\n', end:
		s.Bare = true
	case '=':
		var err error
		if s.Value, err = p.value(); err != nil {
			return err
		}
	default:
		return errSyntax
	}
	p.out = append(p.out, s)
	return nil
}

// value parses up to the end of the line, which a backslash continues on the next one.
func (p *parser) value() (string, error) {
	var out []byte
	quoted, comment := false, false
	keep := 0 // length of out without white space at its end
	for {
		c := p.read()
		switch {
		case c == '\n' || c == end:
			if quoted {
				return "", errSyntax
			}
			return string(out[:keep]), nil
		case comment:
		case isSpace(c) && !quoted:
			if len(out) > 0 {
				out = append(out, byte(c))
			}
		case !quoted && (c == ';' || c == '#'):
			comment = true
		case c == '\\':
			keep = len(out)
			switch c = p.read(); c {
			case '\n', end:
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", errSyntax
			}
			out = append(out, byte(c))
			keep = len(out)
		case c == '"':
			quoted = !quoted
			keep = max(keep, len(out))
		default:
			out = append(out, byte(c))
			keep = len(out)
		}
	}
}

func isSpace(c int) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isAlpha(c int) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func lower(c int) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return byte(c)
}
