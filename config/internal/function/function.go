// Package function implements the functions of the configuration language: env, file, secret and command.
//
// It owns what they return, what they reject, and the mark that prevents a secret from being treated as text. It does not know
// where in the configuration they are called, when they are evaluated, or who receives the value.
//
// Start with [Scope].
package function

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxFileBytes limits a file that is read into a setting, which is a key or a text; a larger file is a mistake.
const maxFileBytes = 1 << 20

// Sources provides the values that functions return.
type Sources struct {
	LookupEnv func(name string) (string, bool)
	Secret    func(name string) (string, error)
	Home      string // the user's home folder, for "~/"
	// Roots are folders that sandboxed commands can write to: files of command()'s programs are tracked only inside them.
	Roots []string
	// Consent is what the user has trusted; nil: everything.
	Consent *Consent
	// Project says that the file belongs to a project rather than to the user or the machine.
	Project bool
}

// Consent limits a project's configuration to the content that the user trusted.
type Consent struct {
	Dir      string             // the project's folder
	Files    map[string]Content // by path
	Commands map[string]string  // digests by [Command.Key]
}

// Content is the content of a file at the time of its digest.
type Content struct {
	Text []byte
	Err  error // why it could not be read
}

// Covers reports whether reading a file requires trust: the file belongs to the project, or its name is relative to it. Other
// files belong to the user or the machine, and a model's commands cannot write them.
func (c *Consent) Covers(name, path string) bool {
	if !filepath.IsAbs(filepath.FromSlash(name)) && !strings.HasPrefix(name, "~/") {
		return true
	}
	rel, err := filepath.Rel(c.Dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Scope provides the functions for one file.
type Scope struct {
	sources Sources
	base    string
	context func() *hcl.EvalContext
}

// NewScope returns the scope of a file whose relative paths are resolved against base.
func NewScope(sources Sources, base string) *Scope {
	s := &Scope{sources: sources, base: base}
	s.context = sync.OnceValue(func() *hcl.EvalContext {
		// There are no variables. An empty map makes HCL name the unknown one in its message.
		return &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: map[string]function.Function{
			"command": s.commandFunction(),
			"env":     envFunction(s.sources.LookupEnv),
			"file":    textFunction("path", s.file),
			"secret":  textFunction("name", s.secret),
		}}
	})
	return s
}

// Base returns the folder that relative paths are resolved against.
func (s *Scope) Base() string { return s.base }

// OfProject reports whether the file belongs to a project.
func (s *Scope) OfProject() bool { return s.sources.Project }

// Context returns a context for evaluating expressions of the file. It is safe for concurrent use.
func (s *Scope) Context() *hcl.EvalContext { return s.context() }

// Recording returns a context that calls read for the environment variables that an expression reads. Files, secrets and the
// output of programs are unknown values in it and are not accessed.
func (s *Scope) Recording(read func(name string)) *hcl.EvalContext {
	return s.recording(func(name string) (string, bool) {
		read(name)
		if v, ok := s.sources.LookupEnv(name); ok {
			return v, true
		}
		return "", true // continue, so that later reads are recorded too
	}, func(string) {}, func(string) {})
}

// RecordingFiles returns a context that calls read with the absolute paths of the files that an expression reads, without reading
// them.
func (s *Scope) RecordingFiles(read func(path string)) *hcl.EvalContext {
	return s.recording(s.sources.LookupEnv, read, func(string) {})
}

// RecordingSecrets returns a context that calls read for the names of the secrets that an expression reads. Nothing else is read or run.
func (s *Scope) RecordingSecrets(read func(name string)) *hcl.EvalContext {
	return s.recording(func(string) (string, bool) { return "", true }, func(string) {}, read)
}

func (s *Scope) recording(lookup func(string) (string, bool), file, secret func(name string)) *hcl.EvalContext {
	unknown := func(string) (cty.Value, error) { return cty.UnknownVal(cty.String), nil }
	return &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: map[string]function.Function{
		"env": envFunction(lookup),
		"command": function.New(&function.Spec{
			VarParam: &function.Parameter{Name: "argv", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowMarked: true},
			Type:     function.StaticReturnType(cty.String),
			Impl:     func([]cty.Value, cty.Type) (cty.Value, error) { return unknown("") },
		}),
		"file": textFunction("path", func(path string) (cty.Value, error) {
			if full, err := s.Path(path); err == nil {
				file(full)
			}
			return unknown("")
		}),
		"secret": textFunction("name", func(name string) (cty.Value, error) {
			secret(name)
			return unknown("")
		}),
	}}
}

// Deferred returns a context in which a variable, file or secret that is missing is an empty string, marked with its [*Missing].
func (s *Scope) Deferred() *hcl.EvalContext {
	c := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: maps.Clone(s.Context().Functions)}
	for _, name := range []string{"env", "file", "secret"} {
		f := c.Functions[name]
		c.Functions[name] = function.New(&function.Spec{
			Params: f.Params(), VarParam: f.VarParam(), Type: function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				v, err := f.Call(args)
				if m, ok := errors.AsType[*Missing](err); ok {
					return cty.StringVal("").Mark(m), nil
				}
				return v, err
			},
		})
	}
	return c
}

// Secret marks values that must reach a plugin as a handle, whatever its schema says.
type Secret struct{}

// Missing is the error of a function whose source has no value. The configuration text itself is correct.
type Missing struct {
	What string // "environment variable", "file" or "secret"
	Name string
	Err  error // nil if the source gave no reason

	Where string // the position of the call, as in "gantry.hcl:14"; empty: not known
}

// Error returns what is missing.
func (m *Missing) Error() string {
	s, detail, _, _ := m.Explain()
	if detail != "" {
		return s + ": " + detail
	}
	return s
}

// Unwrap returns the source's error.
func (m *Missing) Unwrap() error { return m.Err }

// Explain implements [diag.Explainer].
func (m *Missing) Explain() (summary, detail, next string, argument int) {
	if m.Err != nil {
		detail = "The reason is: " + m.Err.Error() + "."
	}
	switch m.What {
	case "environment variable":
		return fmt.Sprintf("environment variable %q is not set", m.Name), detail,
			fmt.Sprintf("set %s where gantry is started, or provide a default: env(%q, \"...\")", m.Name, m.Name), 0
	case "secret":
		return fmt.Sprintf("secret %q can't be used", m.Name), detail, "store the secret, or read it with env()", 0
	}
	return fmt.Sprintf("%s %q can't be used", m.What, m.Name), detail, "correct the path, or make the file readable", 0
}

// envFunction returns the function env(name) or env(name, otherwise).
func envFunction(lookup func(string) (string, bool)) function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "otherwise", Type: cty.String, AllowNull: true, AllowMarked: true},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 2 {
				return cty.String, function.NewArgErrorf(2, "env takes a name and at most one default")
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			if name == "" || strings.ContainsAny(name, "=\x00") {
				return cty.NilVal, function.NewArgErrorf(0, "%q is not a valid variable name", name)
			}
			if v, ok := lookup(name); ok {
				return cty.StringVal(v), nil
			}
			if len(args) == 2 {
				return args[1], nil
			}
			return cty.NilVal, &Missing{What: "environment variable", Name: name}
		},
	})
}

func textFunction(param string, impl func(string) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: param, Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return impl(args[0].AsString()) },
	})
}

func (s *Scope) file(path string) (cty.Value, error) {
	text, err := s.read(path)
	if err != nil {
		return cty.NilVal, &Missing{What: "file", Name: path, Err: err}
	}
	// A trailing line break was added by an editor and is not part of the key.
	text = strings.TrimSuffix(text, "\n")
	return cty.StringVal(strings.TrimSuffix(text, "\r")), nil
}

// Path makes a path absolute: "~/" is the user's home folder, and relative paths are resolved against the folder of the
// configuration file.
func (s *Scope) Path(path string) (string, error) {
	full := filepath.FromSlash(path)
	switch {
	case path == "":
		return "", errors.New("the path is empty")
	case strings.HasPrefix(path, "~/") && s.sources.Home == "":
		return "", errors.New("~ stands for $HOME, which is not set")
	case strings.HasPrefix(path, "~/"):
		full = filepath.Join(s.sources.Home, full[2:])
	case !filepath.IsAbs(full):
		full = filepath.Join(s.base, full)
	}
	return filepath.Clean(full), nil
}

func (s *Scope) read(path string) (string, error) {
	full, err := s.Path(path)
	if err != nil {
		return "", err
	}
	if c := s.sources.Consent; c != nil && c.Covers(path, full) {
		known, ok := c.Files[full]
		switch {
		case !ok:
			return "", errors.New("a project's file() is part of what you trust, so its path must be a literal string")
		case known.Err != nil:
			return "", known.Err
		}
		return text(known.Text)
	}
	b, err := Read(full)
	if err != nil {
		return "", err
	}
	return text(b)
}

// Read returns what file() reads. It rejects pipes and devices, which could block forever.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe since
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

func text(b []byte) (string, error) {
	switch {
	case len(b) > maxFileBytes:
		return "", fmt.Errorf("it is larger than %d bytes", maxFileBytes)
	case !utf8.Valid(b):
		return "", errors.New("it is not UTF-8 text")
	}
	return string(b), nil
}

func (s *Scope) secret(name string) (cty.Value, error) {
	v, err := s.sources.Secret(name)
	if err != nil {
		return cty.NilVal, &Missing{What: "secret", Name: name, Err: err}
	}
	return cty.StringVal(v).Mark(Secret{}), nil
}
