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
	Path string // as errors name it
	Text string
}

// Error says what is wrong with a rules file, and where.
type Error struct {
	Path   string
	Line   int // 0: nowhere in particular
	Column int
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

// Bounds of a file: what a person writes, with much to spare. Beyond them the file is broken.
const (
	maxBytes = 1 << 20
	maxSteps = 1 << 20
	maxRules = 1 << 16
)

// Load reads files, lower layers first. The error joins one [*Error] for each file that is broken; the set then has the rules of
// the others. Whoever gets an error must not let anything pass for want of a rule.
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

// builder is what the functions of a rules file add to.
type builder struct {
	set *Set
	// of the file that is read
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

// dialect is Starlark with what the language leaves to the host to permit, but recursion: a file always comes to its end.
var dialect = syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}

func (b *builder) file(s Source) error {
	if len(s.Text) > maxBytes {
		return &Error{Path: s.Path, Reason: fmt.Sprintf("a rules file may have %d bytes", maxBytes)}
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

// finish checks the examples, now that all rules of the file are known, and takes the file over.
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

// explain finds the place of an error.
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
			reason = "the file takes too long"
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
