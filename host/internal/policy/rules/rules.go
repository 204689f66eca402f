// Package rules reads rules files: which commands are allowed, asked about or forbidden, which hosts may be reached, and which tools of plugins may be called.
//
// It owns: the language of the files (Starlark with four functions), matching a command with the rules, writing a rule back. It
// must not know: shells and scripts, approval policies, who asks.
//
// Start with [Load]; [Set.Match] is the lookup.
package rules

import (
	"fmt"
	"path"
	"slices"
)

// Decision is what a rule says. A stricter one is larger.
type Decision int

// The decisions; unknown is what no rule says.
const (
	Unknown Decision = iota
	Allow
	Prompt
	Forbidden
)

var decisionNames = [...]string{"unknown", "allow", "prompt", "forbidden"}

// String is the word that rules files use.
func (d Decision) String() string {
	if d < 0 || int(d) >= len(decisionNames) {
		return decisionNames[0]
	}
	return decisionNames[d]
}

// Prefix is a rule for commands: those that begin with its words.
type Prefix struct {
	Pattern       [][]string // for each word its alternatives; the first has one
	Decision      Decision
	Justification string
	Path          string // of the file; empty: none
	Line          int
}

// Where names the rule's place for people.
func (p *Prefix) Where() string { return fmt.Sprintf("%s:%d", p.Path, p.Line) }

// matches returns the words of the rule that a command begins with.
func (p *Prefix) matches(argv []string) ([]string, bool) {
	if len(argv) < len(p.Pattern) {
		return nil, false
	}
	for i, alternatives := range p.Pattern {
		if !slices.Contains(alternatives, argv[i]) {
			return nil, false
		}
	}
	return argv[:len(p.Pattern):len(p.Pattern)], true
}

// Network is a rule for a host.
type Network struct {
	Host          string
	Protocol      string // "http", "https", "socks5_tcp" or "socks5_udp"
	Decision      Decision
	Justification string
	Path          string
	Line          int
}

// Where names the rule's place for people.
func (n *Network) Where() string { return fmt.Sprintf("%s:%d", n.Path, n.Line) }

// Match is a rule that a command falls under.
type Match struct {
	Rule   *Prefix
	Prefix []string // the words that matched
	// Program is the path that stands in the command, where the rule has only its name; empty: they are the same.
	Program string
}

// Set is the rules of all layers. The zero Set, and a nil one, has none. It is not changed any more once it is made.
type Set struct {
	first    map[string][]*Prefix // by the first word, in the order of the files
	hosts    []Network
	tools    []Tool
	programs map[string][]string // where a program may lie; missing: anywhere
	size     int
	restrict bool
}

// Match finds the rules that a command falls under, in the order of the files. With byName a program that is named by a path, and
// for which there is no rule, falls under the rules of its name, where host_executable lets it.
func (s *Set) Match(argv []string, byName bool) []Match {
	if s == nil || len(argv) == 0 {
		return nil
	}
	var out []Match
	for _, p := range s.first[argv[0]] {
		if prefix, ok := p.matches(argv); ok {
			out = append(out, Match{Rule: p, Prefix: prefix})
		}
	}
	name := path.Base(argv[0])
	if len(out) > 0 || !byName || name == argv[0] || !s.mayBe(name, argv[0]) {
		return out
	}
	named := append([]string{name}, argv[1:]...)
	for _, p := range s.first[name] {
		if prefix, ok := p.matches(named); ok {
			out = append(out, Match{Rule: p, Prefix: prefix, Program: argv[0]})
		}
	}
	return out
}

func (s *Set) mayBe(name, program string) bool {
	paths, defined := s.programs[name]
	return !defined || slices.Contains(paths, program)
}

// Listed reports whether host_executable names the program's path.
func (s *Set) Listed(program string) bool {
	return s != nil && slices.Contains(s.programs[path.Base(program)], program)
}

// Strictest is what several matches come to.
func Strictest(matches []Match) Decision {
	d := Unknown
	for _, m := range matches {
		d = max(d, m.Rule.Decision)
	}
	return d
}

// Restricts reports whether any rule asks about commands or forbids them.
func (s *Set) Restricts() bool { return s != nil && s.restrict }

// Restrictive returns the rules that ask or forbid and whose first word is a name.
func (s *Set) Restrictive(name string) []*Prefix {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.first[name]), func(p *Prefix) bool { return p.Decision < Prompt })
}

// Network returns the rules for hosts, in the order of the files.
func (s *Set) Network() []Network {
	if s == nil {
		return nil
	}
	return s.hosts
}

// Len is how many rules there are.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.size
}
