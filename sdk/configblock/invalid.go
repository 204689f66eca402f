package configblock

import (
	"errors"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Invalid returns an error that is shown at a place of the user's config block, for example
//
//	configblock.Invalid("the units must fit the region", contract.Name("units"))
func Invalid(summary string, path ...contract.Step) error {
	return &contract.Diagnostic{Severity: contract.SeverityError, Summary: summary, Path: path}
}

// Diagnostics converts an error returned by a plugin to diagnostics: joined errors one by one, a *[contract.Diagnostic]
// unchanged, any other error as an error about the whole block. nil results in none.
func Diagnostics(err error) []contract.Diagnostic {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []contract.Diagnostic
		for _, e := range joined.Unwrap() {
			out = append(out, Diagnostics(e)...)
		}
		return out
	}
	if d, ok := errors.AsType[*contract.Diagnostic](err); ok {
		return []contract.Diagnostic{*d}
	}
	return []contract.Diagnostic{{Severity: contract.SeverityError, Summary: err.Error()}}
}
