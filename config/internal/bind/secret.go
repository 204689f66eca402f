package bind

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Secret is the value of a handle, the program that prints the value, or the reason why there is none. Formatting a Secret prints a placeholder.
type Secret struct {
	Value   string
	Command *function.Command // nil: use Value
	Err     error             // the value is missing; it names the place and the next step
	Stored  bool              // the value contains a stored secret
}

// Format prints a placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(secret)") }

// MarshalJSON writes a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"(secret)"`), nil }

// deferred evaluates a setting of which a value is missing, so that the missing values become secrets with an error. ok is false if
// that can't be done: a block with a label is one of several, which the plugin can use without this one, and its secrets are asked for
// when they are used. Other settings are needed from the start.
func (d *decoder) deferred(a contract.ConfigAttribute, l setting, want cty.Type) (v cty.Value, ok bool) {
	text := want == cty.String || want.IsMapType() && want.ElementType() == cty.String
	if d.mode != Use || d.labels == 0 || !a.Sensitive || !text || a.Endpoint || a.Path || len(a.Allowed) > 0 {
		return cty.NilVal, false
	}
	v, hds := l.expr.Value(l.scope.Deferred())
	if hds.HasErrors() {
		return cty.NilVal, false
	}
	plain, marked := v.UnmarkDeepWithPaths()
	for _, m := range marked {
		missing := missingIn(m.Marks)
		if missing == nil {
			continue
		}
		part, err := m.Path.Apply(plain)
		if err != nil || part.IsNull() || part.Type() != cty.String || commandIn(m.Marks) != nil {
			return cty.NilVal, false
		}
		missing.Where = d.Files.Range(expressionAt(l.expr, steps(m.Path))).String()
	}
	return v, true
}

// missingIn returns what is missing among the marks, or nil.
func missingIn(marks cty.ValueMarks) *function.Missing {
	for m := range marks {
		if x, ok := m.(*function.Missing); ok {
			return x
		}
	}
	return nil
}

// storedIn reports whether the marks are those of a value with a stored secret.
func storedIn(marks cty.ValueMarks) bool {
	_, ok := marks[function.Secret{}]
	return ok
}

// missingError returns the error of using a value with the marks, or nil.
func missingError(marks cty.ValueMarks) error {
	m := missingIn(marks)
	if m == nil {
		return nil
	}
	_, _, next, _ := m.Explain()
	return hint.With(fmt.Errorf("%s: %w", m.Where, m), next)
}

// commands checks that programs which print secrets are the whole value of a sensitive setting.
func (d *decoder) commands(a contract.ConfigAttribute, v cty.Value, at setting) bool {
	plain, marked := v.UnmarkDeepWithPaths()
	for _, m := range marked {
		if commandIn(m.Marks) == nil {
			continue
		}
		part, err := m.Path.Apply(plain)
		detail, next := "", ""
		switch {
		case !a.Sensitive:
			detail = fmt.Sprintf("The argument %q is not treated as secret, but the output of a program might be one.", a.Name)
			next = "use env() or file() here; command() is only for keys"
		case len(m.Marks) > 1:
			detail = "A secret is among the program's arguments, which other users of this machine can read."
			next = "let the program read the secret itself"
		case err != nil || !function.IsCommand(part):
			detail = "The output of a program can't be part of a value or be compared."
			next = "let the program print the whole value"
		default:
			continue
		}
		d.errorAt(at.expr.Range(), "command() is not allowed here", detail, next)
		return false
	}
	return true
}

// commandIn returns the program among the marks, or nil.
func commandIn(marks cty.ValueMarks) *function.Command {
	for m := range marks {
		if c, ok := m.(*function.Command); ok {
			return c
		}
	}
	return nil
}
