// Package diag describes problems to users: what happened, where, and what to do next.
//
// It owns the diagnostic, its text form (one function renders all of them), its JSON form, suggestions for misspelled names, and
// the translation of HCL's diagnostics. It does not know which settings exist, how configuration is layered, or anything about a
// plugin except its name.
//
// Start with [Diagnostic] and [Write].
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is the severity of a diagnostic.
type Severity int

// Severities. Unknown is treated as an error.
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

// Pos is a position in a file. Line and Column start at 1, Byte at 0. Line 0 means that the line is unknown.
type Pos struct{ Line, Column, Byte int }

// Range is a part of a file. File is the name that messages show: relative to the working folder for files inside it, absolute for
// others, and "-c" for a setting of the command line. The zero Range means that there is no position.
type Range struct {
	File       string
	Start, End Pos
}

// IsZero reports whether r is the zero Range.
func (r Range) IsZero() bool { return r.File == "" }

// String returns "gantry.hcl:14", or only the file if the line is unknown.
func (r Range) String() string {
	if r.Start.Line == 0 {
		return r.File
	}
	return fmt.Sprintf("%s:%d", r.File, r.Start.Line)
}

// Snippet contains the lines of a range. Text that looks like a secret is masked. HighlightStart and HighlightEnd are the byte
// offsets of the range in Code.
type Snippet struct {
	Code                         string
	StartLine                    int
	HighlightStart, HighlightEnd int
}

// Diagnostic is a problem. Summary is one line without a full stop. Detail consists of whole sentences and may be empty. The
// position is a Range, or Plugin, Thread and Call, or both. Next is the next step: one line that begins in lower case.
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

// Diagnostics is a list of diagnostics.
type Diagnostics []Diagnostic

// HasErrors reports whether ds contains an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity != Warning })
}

// Errors returns the errors in ds.
func (ds Diagnostics) Errors() Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d Diagnostic) bool { return d.Severity == Warning })
}

// Err returns ds as an error of type [Failure], or nil if ds contains no error.
func (ds Diagnostics) Err() error {
	if errs := ds.Errors(); len(errs) > 0 {
		return Failure{Diagnostics: ds}
	}
	return nil
}

// Sort sorts ds by file and position; diagnostics without a position come first. The sort is stable.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(
			strings.Compare(a.Range.File, b.Range.File),
			cmp.Compare(a.Range.Start.Line, b.Range.Start.Line),
			cmp.Compare(a.Range.Start.Column, b.Range.Start.Column),
		)
	})
}

// Failure is an error made of diagnostics, at least one of which is an error.
type Failure struct{ Diagnostics Diagnostics }

// Error returns the first error on one line and the number of others.
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

// NextStep returns the next step of the first error.
func (f Failure) NextStep() string {
	if errs := f.Diagnostics.Errors(); len(errs) > 0 {
		return errs[0].Next
	}
	return ""
}

// Unwrap returns nil: diagnostics wrap no error.
func (f Failure) Unwrap() error { return nil }
