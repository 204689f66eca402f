package rules

import (
	"errors"
	"fmt"
	"path"

	"go.starlark.net/starlark"
)

// Tool is a rule for tools of a plugin.
type Tool struct {
	Plugin        string // label of its block
	Name          string // pattern for the tool's name, as for [path.Match]
	Descriptor    string // digest of the tool's descriptor; empty: any
	Decision      Decision
	Justification string
	Path          string
	Line          int
}

// Where returns the rule's position for people.
func (t *Tool) Where() string { return fmt.Sprintf("%s:%d", t.Path, t.Line) }

// Tool finds the strictest rule for a tool by its descriptor's digest and its names; nil: there is none.
func (s *Set) Tool(plugin, descriptor string, names ...string) *Tool {
	if s == nil {
		return nil
	}
	var out *Tool
	for i := range s.tools {
		t := &s.tools[i]
		if t.Plugin == plugin && (t.Descriptor == "" || t.Descriptor == descriptor) && Named(t.Name, names...) && (out == nil || t.Decision > out.Decision) {
			out = t
		}
	}
	return out
}

// Named reports whether a pattern matches one of a tool's names.
func Named(pattern string, names ...string) bool {
	for _, name := range names {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// CheckName returns an error if a pattern for tools is invalid.
func CheckName(pattern string) error {
	if pattern == "" {
		return errors.New("the name of the tool is empty; \"*\" is any tool")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is not a valid pattern: a bracket is not closed", pattern)
	}
	return nil
}

// ToolLine returns the line of a rule that lets a tool be called without an approval, as long as its descriptor has this digest.
func ToolLine(plugin, tool, descriptor string) string {
	q := func(s string) string { return starlark.String(s).String() }
	return fmt.Sprintf(`tool_rule(plugin=%s, tool=%s, descriptor=%s, decision="allow")`, q(plugin), q(tool), q(descriptor))
}

// toolRule is tool_rule(plugin, tool, descriptor="", decision="allow", justification=None).
func (b *builder) toolRule(thread *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	t := Tool{Path: b.source.Path, Line: int(thread.CallFrame(1).Pos.Line)}
	var decision string
	var justification starlark.Value
	err := starlark.UnpackArgs(fn.Name(), args, kwargs,
		"plugin", &t.Plugin, "tool", &t.Name, "descriptor?", &t.Descriptor, "decision?", &decision, "justification?", &justification)
	switch {
	case err != nil:
		return nil, err
	case t.Plugin == "":
		return nil, errors.New("tool_rule needs the label of a plugin")
	case len(b.tools)+b.set.size >= maxRules:
		return nil, fmt.Errorf("there are more than %d rules", maxRules)
	}
	if err := CheckName(t.Name); err != nil {
		return nil, err
	}
	if t.Decision, err = decisionOf(decision, Allow, "allow", "prompt", "forbidden"); err != nil {
		return nil, err
	}
	if t.Justification, err = justificationOf(justification); err != nil {
		return nil, err
	}
	b.tools = append(b.tools, t)
	return starlark.None, nil
}
