// Package diag describes problems to people: what happened, where, and what to do next.
//
// It owns: the diagnostic, its text form (one function renders all of them), its JSON form, "did you mean", and the
// translation of HCL's own diagnostics into ours. It must not know: which settings exist, how configuration is layered,
// what a plugin is beyond a name to print.
//
// Start with [Diagnostic] and [Write].
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad it is.
type Severity int

// The severities; unknown counts as an error.
const (
	Unknown Severity = iota
	Error
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Pos is a place in a file. Line and Column count from 1, Byte from 0. Line 0 means no line.
type Pos struct{ Line, Column, Byte int }

// Range is a piece of a file. File is how a person would name it: relative to the working folder when it lies beneath
// it, else absolute; "-c" stands for a setting of the command line. The zero Range is no place.
type Range struct {
	File       string
	Start, End Pos
}

// IsZero reports whether r is no place.
func (r Range) IsZero() bool { return r.File == "" }

// String returns "gantry.hcl:14", or the file alone where there is no line.
func (r Range) String() string {
	if r.Start.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Start.Line)
}

// Snippet is the text at a range, whole lines. What looks like a literal secret is already masked. HighlightStart and
// HighlightEnd are byte offsets of the range within Code.
type Snippet struct {
	Code                         string
	StartLine                    int
	HighlightStart, HighlightEnd int
}

// Diagnostic is one problem. Summary is one line without a full stop; Detail is whole sentences and may be empty. The
// place is Range, or Plugin, Thread and Call, or both. Next says what to do, in one line, beginning in lower case.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	Range    Range
	Snippet  *Snippet
	Plugin   string
	Thread   string
	Call     string
	Next     string
}

// Diagnostics is a list of problems.
type Diagnostics []Diagnostic

// HasErrors reports whether anything in ds is more than a warning.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity != Warning })
}

// Errors returns the errors of ds.
func (ds Diagnostics) Errors() Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d Diagnostic) bool { return d.Severity == Warning })
}

// Err returns ds as an error, nil when nothing in it is one. errors.AsType[diag.Failure] gives the list back.
func (ds Diagnostics) Err() error {
	if errs := ds.Errors(); len(errs) > 0 {
		return Failure{Diagnostics: ds}
	}
	return nil
}

// Sort orders ds by file and position; what has no place comes first. It is stable.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(
			strings.Compare(a.Range.File, b.Range.File),
			cmp.Compare(a.Range.Start.Line, b.Range.Start.Line),
			cmp.Compare(a.Range.Start.Column, b.Range.Start.Column),
		)
	})
}

// Failure is a list of diagnostics, at least one of them an error, as an error.
type Failure struct{ Diagnostics Diagnostics }

// Error returns the first error in one line, and how many more there are.
func (f Failure) Error() string {
	errs := f.Diagnostics.Errors()
	if len(errs) == 0 {
		return "no error"
	}
	var b strings.Builder
	d := errs[0]
	if !d.Range.IsZero() {
		b.WriteString(d.Range.String())
		b.WriteString(": ")
	}
	b.WriteString(visible(d.Summary))
	if d.Detail != "" {
		b.WriteString(": ")
		b.WriteString(strings.ReplaceAll(visible(d.Detail), "\n", " "))
	}
	if n := len(errs) - 1; n > 0 {
		fmt.Fprintf(&b, " (and %d more)", n)
	}
	return b.String()
}

// NextStep is what to do about the first error.
func (f Failure) NextStep() string {
	if errs := f.Diagnostics.Errors(); len(errs) > 0 {
		return errs[0].Next
	}
	return ""
}

// Unwrap is nil: a diagnostic is the end of a chain.
func (f Failure) Unwrap() error { return nil }
