package function

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/gantry-agent/gantry/config/reach"
)

// Command is a program that prints a secret. As a mark, it labels the value that the secret will replace. This package does not
// run it.
type Command struct {
	Argv    []string
	Dir     string        // absolute; the folder of the configuration file
	Timeout time.Duration // for one run
	Refresh time.Duration // how long the output is valid; 0: until it is rejected
	// Files are the files that the program runs in addition to those found in Argv. nil: not set.
	Files []string

	scope  *Scope
	agreed string // the digest that the user trusted; empty outside a project's configuration
}

// Key identifies a program.
func (c *Command) Key() string {
	b, err := json.Marshal([]any{c.Argv, c.Dir, c.Files, c.Files != nil})
	if err != nil {
		panic(err) // cannot fail: the value consists of strings
	}
	return string(b)
}

// Reach returns the files that the program can run.
func (c *Command) Reach(roots ...string) reach.Set {
	q := reach.Query{Dir: c.Dir, Roots: append(slices.Clip(c.scope.sources.Roots), roots...), Listed: c.Files, Complete: c.Files != nil}
	for _, name := range []string{"PATH", "HOME"} {
		if v, ok := c.scope.sources.LookupEnv(name); ok {
			q.Env = append(q.Env, name+"="+v)
		}
	}
	return q.Argv(c.Argv)
}

// Digest returns the digest of the files that the program can run. It fails if they cannot be determined.
func (c *Command) Digest() (string, error) {
	set := c.Reach()
	if len(set.Gaps) > 0 {
		g := set.Gaps[0]
		return "", fmt.Errorf("%s; %s", g, strings.Replace(g.Next, "list in files", "list in { files = [...] }", 1))
	}
	sum, err := set.Digest()
	if sum == "" && err == nil {
		sum = "r1:" // it runs no file of the project
	}
	return sum, err
}

// Check reports an error if the program is not the one that the user trusted.
func (c *Command) Check() error {
	if c.agreed == "" {
		return nil
	}
	is, err := c.Digest()
	if err != nil {
		return fmt.Errorf("can't be compared with the content that you trusted: %w", err)
	}
	if is != c.agreed {
		return hint.New("runs a file that has changed since you trusted it", "review it, run `gantry trust`, and start again")
	}
	return nil
}

// The timeouts are those of codex 0.169.
const (
	commandTimeout = 5 * time.Second
	commandRefresh = 5 * time.Minute
	maxTimeout     = 10 * time.Minute
)

// commandText is a placeholder for the program's output. It starts with a zero byte, which no other value can contain, so that
// partial uses of the value are detected.
const commandText = "\x00command"

// IsCommand reports whether an unmarked value is the placeholder of a command and nothing else.
func IsCommand(v cty.Value) bool {
	return v.Type() == cty.String && v.IsKnown() && !v.IsNull() && v.AsString() == commandText
}

// commandFunction returns the function command(argv) or command(argv, {timeout, refresh, files}).
func (s *Scope) commandFunction() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "argv", Type: cty.List(cty.String)}},
		VarParam: &function.Parameter{Name: "options", Type: cty.DynamicPseudoType},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 2 {
				return cty.String, function.NewArgErrorf(2, "command takes a program with its arguments, and at most one object with "+
					"options")
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			c := &Command{Dir: s.base, Timeout: commandTimeout, Refresh: commandRefresh, scope: s}
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
				return cty.NilVal, function.NewArgErrorf(0, "an argument of a program can't be another command, or contain a zero byte")
			}
			// A name without a slash is looked up in PATH; anything else is a path like any other.
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
			if consent := s.sources.Consent; consent != nil {
				agreed, ok := consent.Commands[c.Key()]
				if !ok {
					return cty.NilVal, function.NewArgErrorf(0, "a project's command() is part of what you trust, so its words must be "+
						"literal strings")
				}
				if c.agreed = agreed; agreed == "" {
					_, err := c.Digest()
					return cty.NilVal, function.NewArgError(0, fmt.Errorf("trust can't cover what it runs: %w", err))
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
		if name == "files" {
			if err := c.list(e); err != nil {
				return err
			}
			continue
		}
		to := known[name]
		if to == nil {
			return fmt.Errorf("unknown option %q; the options are files, refresh and timeout", name)
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

// list reads the option "files".
func (c *Command) list(v cty.Value) error {
	if v.IsNull() || !v.Type().IsTupleType() && !v.Type().IsListType() && !v.Type().IsSetType() {
		return errors.New(`files is a list: { files = ["scripts"] }`)
	}
	c.Files = []string{}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() || e.Type() != cty.String || e.AsString() == "" {
			return errors.New(`files is a list of texts: { files = ["scripts"] }`)
		}
		c.Files = append(c.Files, e.AsString())
	}
	return nil
}
