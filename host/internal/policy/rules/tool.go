package rules

import (
	"errors"
	"fmt"
	"path"

	"go.starlark.net/starlark"
)

// Tool is a rule for tools of a plugin.
type Tool struct {
	Plugin        string // the label of its block
	Name          string // of the tool; "*" stands for any characters
	Descriptor    string // the digest of what the tool says about itself; empty: whatever it says
	Decision      Decision
	Justification string
	Path          string
	Line          int
}

// Where names the rule's place for people.
func (t *Tool) Where() string { return fmt.Sprintf("%s:%d", t.Path, t.Line) }

// Tool finds the strictest rule for a tool that says this about itself; nil: there is none. names are the names that it goes by.
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

// Named reports whether a pattern for tools is for one that goes by these names.
func Named(pattern string, names ...string) bool {
	for _, name := range names {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// CheckName says what is wrong with a pattern for tools.
func CheckName(pattern string) error {
	if pattern == "" {
		return errors.New("the name of the tool is empty; \"*\" is any tool")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is no pattern: a bracket is not closed", pattern)
	}
	return nil
}

// ToolLine is the line of a rule that lets a tool be called without a question, for as long as it says the same about itself.
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
