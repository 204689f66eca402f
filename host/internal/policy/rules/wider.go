package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Change is a difference between two sets that allows more than before.
type Change struct {
	Path    string
	Line    int
	Removed bool // a rule of the earlier set, which restricted something, is missing
	Text    string
}

// Wider compares a set with an earlier one. It returns new rules that allow, and missing rules that forbid or ask.
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

// listed returns all rules.
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
		what := fmt.Sprintf("%s tools %q", r.Decision, r.Name)
		if r.Service != "" {
			what = fmt.Sprintf("%s actions %q of service %q", r.Decision, r.Name, r.Service)
		}
		if r.Plugin != "" {
			what += fmt.Sprintf(" of plugin %q", r.Plugin)
		}
		out = append(out, listing{strings.TrimSpace(what + " " + r.Descriptor), r.Path, r.Line, r.Decision})
	}
	return out
}
