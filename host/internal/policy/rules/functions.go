package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
)

// prefixRule is prefix_rule(pattern, decision="allow", match=[], not_match=[], justification=None).
func (b *builder) prefixRule(thread *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var pattern, match, notMatch *starlark.List
	var decision string
	var justification starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs,
		"pattern", &pattern, "decision?", &decision, "match?", &match, "not_match?", &notMatch, "justification?", &justification); err != nil {
		return nil, err
	}
	line := int(thread.CallFrame(1).Pos.Line)
	words, err := patternOf(pattern)
	if err != nil {
		return nil, err
	}
	p := Prefix{Pattern: words, Path: b.source.Path, Line: line}
	if p.Decision, err = decisionOf(decision, Allow, "allow", "prompt", "forbidden"); err != nil {
		return nil, err
	}
	if p.Justification, err = justificationOf(justification); err != nil {
		return nil, err
	}
	e := examples{path: b.source.Path, line: line}
	if e.match, err = examplesOf("match", match); err != nil {
		return nil, err
	}
	if e.notMatch, err = examplesOf("not_match", notMatch); err != nil {
		return nil, err
	}
	for _, first := range words[0] {
		one := p
		one.Pattern = append([][]string{{first}}, words[1:]...)
		e.rules = append(e.rules, &one)
	}
	if len(b.prefixes)+len(e.rules)+b.set.size > maxRules {
		return nil, fmt.Errorf("there are more than %d rules", maxRules)
	}
	b.prefixes = append(b.prefixes, e.rules...)
	b.examples = append(b.examples, e)
	return starlark.None, nil
}

// patternOf converts a pattern: a list of words and lists of words.
func patternOf(list *starlark.List) ([][]string, error) {
	if list == nil || list.Len() == 0 {
		return nil, errors.New("invalid pattern element: pattern cannot be empty")
	}
	var out [][]string
	for i := range list.Len() {
		switch v := list.Index(i).(type) {
		case starlark.String:
			out = append(out, []string{string(v)})
		case *starlark.List:
			alternatives, err := stringsOf(v)
			if err != nil {
				return nil, fmt.Errorf("invalid pattern element: %w", err)
			}
			if len(alternatives) == 0 {
				return nil, errors.New("invalid pattern element: a list of alternatives cannot be empty")
			}
			out = append(out, alternatives)
		default:
			return nil, fmt.Errorf("invalid pattern element: want a string or a list of strings, got %s", v.Type())
		}
	}
	if slices.Contains(out[0], "") {
		return nil, errors.New("invalid pattern element: the first word cannot be empty")
	}
	return out, nil
}

func stringsOf(list *starlark.List) ([]string, error) {
	var out []string
	for i := range list.Len() {
		s, ok := starlark.AsString(list.Index(i))
		if !ok {
			return nil, fmt.Errorf("want a string, got %s", list.Index(i).Type())
		}
		out = append(out, s)
	}
	return out, nil
}

func decisionOf(text string, standard Decision, allowed ...string) (Decision, error) {
	if text == "" {
		return standard, nil
	}
	if !slices.Contains(allowed, text) {
		return Unknown, fmt.Errorf("invalid decision: %s; use one of %s", text, strings.Join(allowed, ", "))
	}
	if text == "deny" {
		return Forbidden, nil
	}
	return Decision(slices.Index(decisionNames[:], text)), nil
}

func justificationOf(v starlark.Value) (string, error) {
	if v == nil || v == starlark.None {
		return "", nil
	}
	text, ok := starlark.AsString(v)
	if !ok {
		return "", fmt.Errorf("invalid rule: justification must be a string, got %s", v.Type())
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("invalid rule: justification cannot be empty")
	}
	return text, nil
}

// examples are commands that a rule must match, or must not match, according to its author.
type examples struct {
	rules           []*Prefix
	match, notMatch [][]string
	path            string
	line            int
}

// examplesOf converts examples: command lines, or lists of words.
func examplesOf(name string, list *starlark.List) ([][]string, error) {
	if list == nil {
		return nil, nil
	}
	var out [][]string
	for i := range list.Len() {
		var words []string
		switch v := list.Index(i).(type) {
		case starlark.String:
			var ok bool
			if words, ok = command.Split(string(v)); !ok {
				return nil, fmt.Errorf("invalid example in %s: %s is not a plain list of words", name, v)
			}
		case *starlark.List:
			var err error
			if words, err = stringsOf(v); err != nil {
				return nil, fmt.Errorf("invalid example in %s: %w", name, err)
			}
		default:
			return nil, fmt.Errorf("invalid example in %s: want a string or a list of strings, got %s", name, v.Type())
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("invalid example in %s: example cannot be empty", name)
		}
		out = append(out, words)
	}
	return out, nil
}

func (e *examples) check() error {
	matches := func(argv []string) bool {
		return slices.ContainsFunc(e.rules, func(p *Prefix) bool { _, ok := p.matches(argv); return ok })
	}
	for _, argv := range e.match {
		if !matches(argv) {
			return &Error{Path: e.path, Line: e.line, Reason: "expected every example to match at least one rule; this one does not: " + command.Join(argv)}
		}
	}
	for _, argv := range e.notMatch {
		if matches(argv) {
			return &Error{Path: e.path, Line: e.line, Reason: "expected example to not match rule: " + command.Join(argv)}
		}
	}
	return nil
}

// networkRule is network_rule(host, protocol, decision, justification=None).
func (b *builder) networkRule(thread *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var host, protocol, decision string
	var justification starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs,
		"host", &host, "protocol", &protocol, "decision", &decision, "justification?", &justification); err != nil {
		return nil, err
	}
	n := Network{Path: b.source.Path, Line: int(thread.CallFrame(1).Pos.Line)}
	var err error
	if n.Host, err = hostOf(host); err != nil {
		return nil, err
	}
	switch protocol {
	case "http", "https", "socks5_tcp", "socks5_udp":
		n.Protocol = protocol
	case "https_connect", "http-connect":
		n.Protocol = "https"
	default:
		return nil, fmt.Errorf("invalid network_rule protocol: %s; use one of http, https, socks5_tcp, socks5_udp", protocol)
	}
	if decision == "" {
		return nil, errors.New("invalid decision: network_rule needs one")
	}
	if n.Decision, err = decisionOf(decision, Unknown, "allow", "prompt", "deny", "forbidden"); err != nil {
		return nil, err
	}
	if n.Justification, err = justificationOf(justification); err != nil {
		return nil, err
	}
	if len(b.hosts)+b.set.size > maxRules {
		return nil, fmt.Errorf("there are more than %d rules", maxRules)
	}
	b.hosts = append(b.hosts, n)
	return starlark.None, nil
}

// hostOf returns a host in a form for comparison: in lower case, without a trailing dot.
func hostOf(text string) (string, error) {
	host := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), ".")
	if strings.ContainsAny(host, "*?") {
		return "", errors.New("network_rule host must be a specific host; wildcards are not allowed")
	}
	if bare, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(bare, "]")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String(), nil
	}
	if host == "" || strings.ContainsAny(host, "/:@ \t\n[]\\") {
		return "", fmt.Errorf("network_rule host must be a name or an address without scheme, port or path (got %s)", text)
	}
	return host, nil
}

// hostExecutable is host_executable(name, paths).
func (b *builder) hostExecutable(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name string
	var list *starlark.List
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "name", &name, "paths", &list); err != nil {
		return nil, err
	}
	if name == "" || strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("host_executable name must be a bare name (got %s)", name)
	}
	paths, err := stringsOf(list)
	if err != nil {
		return nil, fmt.Errorf("host_executable paths: %w", err)
	}
	for _, p := range paths {
		if !path.IsAbs(p) {
			return nil, fmt.Errorf("host_executable paths must be absolute (got %s)", p)
		}
		if path.Base(p) != name {
			return nil, fmt.Errorf("host_executable path %s must end in %s", p, name)
		}
	}
	b.programs = append(b.programs, program{name, paths})
	return starlark.None, nil
}
