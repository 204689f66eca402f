// Package rules reads rules files: which commands are allowed, asked about or forbidden, which hosts may be reached, and which tools of
// plugins may be called.
//
// It owns: the language of the files (Starlark with four functions), matching commands with rules, adding rules to a file. It must not
// know: shells and scripts, approval policies, how a question is asked.
//
// Start with [Load]; [Set.Match] is the lookup.
package rules

import (
	"fmt"
	"path"
	"slices"
)

// Decision is the decision of a rule.
type Decision int

// The decisions, in the order of strictness. Unknown is the decision if no rule matches.
const (
	Unknown Decision = iota
	Allow
	Prompt
	Forbidden
)

var decisionNames = [...]string{"unknown", "allow", "prompt", "forbidden"}

// String returns the word that rules files use.
func (d Decision) String() string {
	if d < 0 || int(d) >= len(decisionNames) {
		return decisionNames[0]
	}
	return decisionNames[d]
}

// Prefix is a rule for commands that begin with its words.
type Prefix struct {
	Pattern       [][]string // the alternatives for each word; the first word has one
	Decision      Decision
	Justification string
	Path          string // of the file
	Line          int
}

// Where returns the rule's position for people.
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

// Where returns the rule's position for people.
func (n *Network) Where() string { return fmt.Sprintf("%s:%d", n.Path, n.Line) }

// Match is a rule that matches a command.
type Match struct {
	Rule   *Prefix
	Prefix []string // the words of the command that matched
	// Program is the path in the command if the rule only has the program's name; empty: they are the same.
	Program string
}

// Set has the rules of all layers. It is immutable. The zero Set and a nil one are empty.
type Set struct {
	first    map[string][]*Prefix // by the first word, in the order of the files
	hosts    []Network
	tools    []Tool
	programs map[string][]string // permitted paths by name of a program; missing: any
	size     int
	restrict bool // there are rules that ask about commands or forbid them
}

// Match finds the rules that match a command, in the order of the files. With byName, rules for the name of a program also match a path,
// if no rule matches the path and host_executable permits it.
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

// Listed reports whether host_executable lists the program's path.
func (s *Set) Listed(program string) bool {
	return s != nil && slices.Contains(s.programs[path.Base(program)], program)
}

// Strictest returns the strictest decision of several matches.
func Strictest(matches []Match) Decision {
	d := Unknown
	for _, m := range matches {
		d = max(d, m.Rule.Decision)
	}
	return d
}

// Restricts reports whether any rule asks about commands or forbids them.
func (s *Set) Restricts() bool { return s != nil && s.restrict }

// Restrictive returns the rules with a first word that ask or forbid.
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
