package function

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Command is a program that prints a secret. It marks the value in whose place it stands; nothing is run here.
type Command struct {
	Argv    []string
	Dir     string        // absolute: that of the file
	Timeout time.Duration // for one run
	Refresh time.Duration // how long what it printed is good; 0: until it is refused where it is used
}

// source: codex 0.169 gives its command the same times.
const (
	commandTimeout = 5 * time.Second
	commandRefresh = 5 * time.Minute
	maxTimeout     = 10 * time.Minute
)

// commandText stands where the program's output will be. No other value can hold a zero byte, so that a part of it, or more
// than it, can be told from the whole.
const commandText = "\x00command"

// IsCommand tells whether a value, without its marks, is a command's and nothing else.
func IsCommand(v cty.Value) bool {
	return v.Type() == cty.String && v.IsKnown() && !v.IsNull() && v.AsString() == commandText
}

// commandFunction is command(argv) and command(argv, {timeout, refresh}).
func (s *Scope) commandFunction() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "argv", Type: cty.List(cty.String)}},
		VarParam: &function.Parameter{Name: "options", Type: cty.DynamicPseudoType},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 2 {
				return cty.String, function.NewArgErrorf(2, "command takes a program with its arguments and at most one object with options")
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			c := &Command{Dir: s.base, Timeout: commandTimeout, Refresh: commandRefresh}
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				if v.IsNull() {
					return cty.NilVal, function.NewArgErrorf(0, "an argument of the program is null")
				}
				c.Argv = append(c.Argv, v.AsString())
			}
			switch {
			case len(c.Argv) == 0 || c.Argv[0] == "":
				return cty.NilVal, function.NewArgErrorf(0, `it names no program: write command(["PROGRAM", "ARGUMENT"])`)
			case slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
				return cty.NilVal, function.NewArgErrorf(0, "an argument of a program can't be another command, and holds no zero byte")
			}
			// A bare name is looked for in PATH, all else is a path as everywhere.
			if strings.ContainsRune(filepath.ToSlash(c.Argv[0]), '/') {
				path, err := s.Path(c.Argv[0])
				if err != nil {
					return cty.NilVal, function.NewArgError(0, err)
				}
				c.Argv[0] = path
			}
			if len(args) == 2 {
				if err := c.options(args[1]); err != nil {
					return cty.NilVal, function.NewArgError(1, err)
				}
			}
			return cty.StringVal(commandText).Mark(c), nil
		},
	})
}

// options reads the second argument.
func (c *Command) options(v cty.Value) error {
	if v.IsNull() || !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return errors.New(`options are an object: { timeout = "5s", refresh = "5m" }`)
	}
	known := map[string]*time.Duration{"timeout": &c.Timeout, "refresh": &c.Refresh}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		name := k.AsString()
		to := known[name]
		if to == nil {
			return fmt.Errorf("the options are refresh and timeout, not %q", name)
		}
		if e.IsNull() || e.Type() != cty.String {
			return fmt.Errorf(`%s is a duration in quotes: "5s"`, name)
		}
		d, err := time.ParseDuration(e.AsString())
		if err != nil || d < 0 {
			return fmt.Errorf(`%s: %q is not a duration: write "5s" or "5m"`, name, e.AsString())
		}
		*to = d
	}
	if c.Timeout <= 0 || c.Timeout > maxTimeout {
		return fmt.Errorf("timeout must be more than 0 and at most %v", maxTimeout)
	}
	return nil
}
