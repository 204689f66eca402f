package bind

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Secret is the value of a handle, or the program that prints the value. Formatting a Secret prints a placeholder.
type Secret struct {
	Value   string
	Command *function.Command // nil: use Value
}

// Format prints a placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(secret)") }

// MarshalJSON writes a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"(secret)"`), nil }

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
