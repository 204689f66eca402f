package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Change is a rule that makes a set allow more than an earlier one.
type Change struct {
	Path    string
	Line    int
	Removed bool // it is a rule of the earlier set, which kept something from running
	Text    string
}

// Wider compares a set with an earlier one: which rules that allow are new, and which that forbid or ask are gone.
func (s *Set) Wider(before *Set) []Change {
	now, was := s.listed(), before.listed()
	var out []Change
	for _, r := range now {
		if r.decision == Allow && !slices.ContainsFunc(was, r.equals) {
			out = append(out, Change{Path: r.path, Line: r.line, Text: r.text})
		}
	}
	for _, r := range was {
		if r.decision != Allow && !slices.ContainsFunc(now, r.equals) {
			out = append(out, Change{Path: r.path, Line: r.line, Removed: true, Text: "without " + r.text})
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line)) })
	return out
}

// listing is a rule of any kind.
type listing struct {
	text, path string
	line       int
	decision   Decision
}

func (l listing) equals(o listing) bool { return l.text == o.text && l.decision == o.decision }

// listed lists all rules.
func (s *Set) listed() (out []listing) {
	if s == nil {
		return nil
	}
	for _, rules := range s.first {
		for _, r := range rules {
			var words []string
			for _, alternatives := range r.Pattern {
				words = append(words, strings.Join(alternatives, "|"))
			}
			out = append(out, listing{fmt.Sprintf("%s commands that begin with %q", r.Decision, words), r.Path, r.Line, r.Decision})
		}
	}
	for _, r := range s.hosts {
		out = append(out, listing{fmt.Sprintf("%s %s to %s", r.Decision, r.Protocol, r.Host), r.Path, r.Line, r.Decision})
	}
	for _, r := range s.tools {
		out = append(out, listing{strings.TrimSpace(fmt.Sprintf("%s tools %q of plugin %q %s", r.Decision, r.Name, r.Plugin, r.Descriptor)), r.Path, r.Line, r.Decision})
	}
	return out
}
