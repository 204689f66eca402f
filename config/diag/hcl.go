package diag

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// SetFile is the prefix of the file name under which a setting of the command line is parsed: "-c approval.policy". Its
// ranges are shown as "-c" without a line.
const SetFile = "-c "

// Files holds the text of what was read, by the name that HCL ranges carry. It is the source of snippets.
type Files map[string][]byte

// Range translates an HCL range.
func (f Files) Range(r hcl.Range) Range {
	if r.Filename == "" {
		return Range{}
	}
	out := Range{File: r.Filename, Start: Pos(r.Start), End: Pos(r.End)}
	if strings.HasPrefix(r.Filename, SetFile) {
		out.File = strings.TrimSpace(SetFile)
		out.Start.Line, out.End.Line = 0, 0
	}
	return out
}

// At gives d the place r, unless it has one.
func (f Files) At(r hcl.Range, d Diagnostic) Diagnostic {
	if d.Range.IsZero() {
		d.Range = f.Range(r)
		d.Snippet = f.snippet(r)
	}
	return d
}

// Explainer is implemented by errors of configuration functions that know a better summary, detail and next step than
// HCL's general words for a failed call.
type Explainer interface {
	error
	Explain() (summary, detail, next string)
}

// Convert translates diagnostics of the HCL library. Next steps that HCL puts at the end of its detail move to Next;
// where there is none, next is used.
func (f Files) Convert(ds hcl.Diagnostics, next string) Diagnostics {
	out := make(Diagnostics, 0, len(ds))
	for _, h := range ds {
		d := Diagnostic{Severity: Error, Summary: lowerFirst(h.Summary), Detail: h.Detail}
		if h.Severity == hcl.DiagWarning {
			d.Severity = Warning
		}
		if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](h); ok {
			if e, ok := errors.AsType[Explainer](call.FunctionCallError()); ok {
				s, detail, n := e.Explain()
				d.Summary += ": " + s
				d.Detail, d.Next = detail, n
			}
		}
		if d.Next == "" {
			d.Detail, d.Next = splitSuggestion(d.Detail)
		}
		if d.Next == "" {
			d.Next = next
		}
		if h.Subject != nil {
			d = f.At(*h.Subject, d)
		}
		out = append(out, d)
	}
	return out
}

// splitSuggestion takes a closing `Did you mean …?` off a detail.
func splitSuggestion(detail string) (rest, next string) {
	i := strings.LastIndex(detail, "Did you mean ")
	if i < 0 {
		return detail, ""
	}
	return strings.TrimSpace(detail[:i]), lowerFirst(detail[i:])
}

// lowerFirst lowers the first letter, unless the word looks like an abbreviation.
func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[n:])
	if !unicode.IsUpper(r) || unicode.IsUpper(second) {
		return s
	}
	return string(unicode.ToLower(r)) + s[n:]
}
