package rules

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Source is a rules file.
type Source struct {
	Path string // for error messages
	Text string
}

// Error is an error in a rules file.
type Error struct {
	Path   string
	Line   int // 0: the whole file
	Column int // 0: the whole line
	Reason string
}

// Error implements error: file, line and reason.
func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("%s: %s", e.Path, e.Reason)
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Column, e.Reason)
}

// Bounds of a file, beyond which it is invalid.
const (
	maxBytes = 1 << 20
	maxSteps = 1 << 20 // of its execution
	maxRules = 1 << 16 // of all files
)

// Load loads files, lower layers first. The error joins an [*Error] for each invalid file; the set has the rules of the others. After an
// error, a caller must not allow anything just because no rule forbids it.
func Load(sources []Source) (*Set, error) {
	b := &builder{set: &Set{first: map[string][]*Prefix{}, programs: map[string][]string{}}}
	var errs []error
	for _, s := range sources {
		if err := b.file(s); err != nil {
			errs = append(errs, err)
		}
	}
	return b.set, errors.Join(errs...)
}

// builder collects the rules of a file until the file has proved valid.
type builder struct {
	set *Set // of the files before

	source   Source
	prefixes []*Prefix
	hosts    []Network
	tools    []Tool
	programs []program
	examples []examples
}

type program struct {
	name  string
	paths []string
}

// dialect is Starlark with all optional features except recursion.
var dialect = syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}

func (b *builder) file(s Source) error {
	if len(s.Text) > maxBytes {
		return &Error{Path: s.Path, Reason: fmt.Sprintf("a rules file is limited to %d bytes", maxBytes)}
	}
	*b = builder{set: b.set, source: s}
	thread := &starlark.Thread{
		Name:  s.Path,
		Print: func(*starlark.Thread, string) {},
		Load: func(*starlark.Thread, string) (starlark.StringDict, error) {
			//lint:ignore ST1005 it is a sentence that people read
			return nil, errors.New("No imports are available")
		},
	}
	thread.SetMaxExecutionSteps(maxSteps)
	opts := dialect
	_, err := starlark.ExecFileOptions(&opts, thread, s.Path, s.Text, starlark.StringDict{
		"prefix_rule":     starlark.NewBuiltin("prefix_rule", b.prefixRule),
		"network_rule":    starlark.NewBuiltin("network_rule", b.networkRule),
		"tool_rule":       starlark.NewBuiltin("tool_rule", b.toolRule),
		"host_executable": starlark.NewBuiltin("host_executable", b.hostExecutable),
	})
	if err != nil {
		return b.explain(err)
	}
	return b.finish()
}

// finish checks the file's examples and adds its rules to the set.
func (b *builder) finish() error {
	for _, e := range b.examples {
		if err := e.check(); err != nil {
			return err
		}
	}
	set := b.set
	for _, p := range b.prefixes {
		set.first[p.Pattern[0][0]] = append(set.first[p.Pattern[0][0]], p)
		set.restrict = set.restrict || p.Decision >= Prompt
	}
	set.hosts = append(set.hosts, b.hosts...)
	set.tools = append(set.tools, b.tools...)
	for _, p := range b.programs {
		set.programs[p.name] = p.paths
	}
	set.size += len(b.prefixes) + len(b.hosts) + len(b.tools)
	return nil
}

// explain adds the position to an error of Starlark.
func (b *builder) explain(err error) error {
	at := func(p syntax.Position, reason string) error {
		return &Error{Path: b.source.Path, Line: int(p.Line), Column: int(p.Col), Reason: reason}
	}
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return at(e.Pos, e.Msg)
	}
	if es, ok := errors.AsType[resolve.ErrorList](err); ok && len(es) > 0 {
		return at(es[0].Pos, es[0].Msg)
	}
	if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		reason := e.Msg
		if strings.Contains(reason, "too many steps") {
			reason = "its execution takes too many steps"
		}
		for i := range e.CallStack { // the innermost place in the file
			if f := e.CallStack.At(i); f.Pos.Line > 0 && f.Pos.Filename() == b.source.Path {
				return at(f.Pos, reason)
			}
		}
		return at(syntax.Position{}, reason)
	}
	return at(syntax.Position{}, err.Error())
}
