package rules

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.starlark.net/starlark"
)

// Tool is a rule for tools of a plugin, or for actions of a service that a plugin uses.
type Tool struct {
	Plugin        string // label of its block; empty only for a service: any plugin, or for an allow rule any that comes with gantry
	Service       string // name of the service; empty: a rule for tools
	Name          string // pattern for the name of the tool or action, as for [path.Match]; in actions, * also matches slashes
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
		if t.Service == "" && t.Plugin == plugin && (t.Descriptor == "" || t.Descriptor == descriptor) && Named(t.Name, names...) && (out == nil || t.Decision > out.Decision) {
			out = t
		}
	}
	return out
}

// Action is an action of a service, which a call of a plugin's tool requests.
type Action struct {
	Plugin     string
	BuiltIn    bool   // the plugin comes with gantry
	Descriptor string // digest of the tool's descriptor
	Service    string
	Name       string
}

// Action finds the strictest rule for an action of a service; nil: there is none.
func (s *Set) Action(a Action) *Tool {
	var out *Tool
	for _, t := range s.Actions(a) {
		if (t.Descriptor == "" || t.Descriptor == a.Descriptor) && (out == nil || t.Decision > out.Decision) {
			out = t
		}
	}
	return out
}

// Actions lists the rules for an action, whatever digest they require, in the order of the files.
func (s *Set) Actions(a Action) (out []*Tool) {
	if s == nil {
		return nil
	}
	for i := range s.tools {
		t := &s.tools[i]
		// Any plugin can call its service by this name, so what one is allowed is not allowed to another.
		of := t.Plugin == a.Plugin || t.Plugin == "" && (t.Decision != Allow || a.BuiltIn)
		if t.Service == a.Service && of && Named(slashless.Replace(t.Name), slashless.Replace(a.Name)) {
			out = append(out, t)
		}
	}
	return out
}

// slashless replaces the character that patterns treat specially, which means nothing in the names of actions.
var slashless = strings.NewReplacer("/", "\x00")

// Tools lists the rules for a tool, whatever digest they require, in the order of the files.
func (s *Set) Tools(plugin string, names ...string) (out []*Tool) {
	if s == nil {
		return nil
	}
	for i := range s.tools {
		if t := &s.tools[i]; t.Service == "" && t.Plugin == plugin && Named(t.Name, names...) {
			out = append(out, t)
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
	return fmt.Sprintf(`tool_rule(plugin=%s, tool=%s, digest=%s, decision="allow")`, quoted(plugin), quoted(tool), quoted(descriptor))
}

// ActionLine is like [ToolLine] for an action of a service.
func ActionLine(a Action) string {
	return fmt.Sprintf(`tool_rule(plugin=%s, service=%s, tool=%s, digest=%s, decision="allow")`,
		quoted(a.Plugin), quoted(a.Service), quoted(literal.Replace(a.Name)), quoted(a.Descriptor))
}

// literal escapes what patterns treat specially.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

func quoted(s string) string { return starlark.String(s).String() }

// toolRule is tool_rule(plugin=None, service=None, tool, digest="", decision="allow", justification=None). Earlier versions call the
// digest descriptor.
func (b *builder) toolRule(thread *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	t := Tool{Path: b.source.Path, Line: int(thread.CallFrame(1).Pos.Line)}
	var decision, digest string
	var justification starlark.Value
	err := starlark.UnpackArgs(fn.Name(), args, kwargs, "plugin?", &t.Plugin, "tool?", &t.Name, "descriptor?", &t.Descriptor,
		"decision?", &decision, "justification?", &justification, "service?", &t.Service, "digest?", &digest)
	t.Descriptor = cmp.Or(digest, t.Descriptor)
	switch {
	case err != nil:
		return nil, err
	case t.Plugin == "" && t.Service == "":
		return nil, errors.New("tool_rule needs the label of a plugin, or the name of a service")
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
