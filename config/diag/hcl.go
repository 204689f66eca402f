package diag

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// SetFile is the prefix of the file name under which a setting of the command line is parsed, as in "-c approval.policy". Ranges
// in it are printed as "-c" without a line.
const SetFile = "-c "

// Files maps the file names of HCL ranges to the texts of the files. Snippets are taken from it.
type Files map[string][]byte

// Range converts an HCL range.
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

// At sets the range and snippet of d to r, unless d already has a range.
func (f Files) At(r hcl.Range, d Diagnostic) Diagnostic {
	if d.Range.IsZero() {
		d.Range = f.Range(r)
		d.Snippet = f.snippet(r)
	}
	return d
}

// Place is like At for a range that is already converted.
func (f Files) Place(r Range, d Diagnostic) Diagnostic {
	if r.IsZero() || r.Start.Line == 0 {
		d.Range = r
		return d
	}
	return f.At(hcl.Range{Filename: r.File, Start: hcl.Pos(r.Start), End: hcl.Pos(r.End)}, d)
}

// Explainer is an error of a configuration function that explains itself better than HCL's general message for a failed call: with
// a summary, a detail, a next step, and the index of the argument that is wrong.
type Explainer interface {
	error
	Explain() (summary, detail, next string, argument int)
}

// Convert converts diagnostics of the HCL library. A suggestion at the end of HCL's detail becomes Next; without one, next is
// used.
func (f Files) Convert(ds hcl.Diagnostics, next string) Diagnostics {
	out := make(Diagnostics, 0, len(ds))
	for _, h := range ds {
		d := Diagnostic{Severity: Error, Summary: lowerFirst(h.Summary), Detail: h.Detail}
		if h.Severity == hcl.DiagWarning {
			d.Severity = Warning
		}
		subject := h.Subject
		if e := explainer(h); e != nil {
			var argument int
			d.Summary, d.Detail, d.Next, argument = e.Explain()
			if call, ok := h.Expression.(*hclsyntax.FunctionCallExpr); ok && argument < len(call.Args) {
				subject = call.Args[argument].Range().Ptr()
			}
		}
		if d.Next == "" {
			d.Detail, d.Next = splitSuggestion(d.Detail)
		}
		if d.Next == "" && h.Summary == "Unknown variable" {
			d.Next = "put text in quotes; references to other settings are not supported"
		}
		if d.Next == "" {
			d.Next = next
		}
		if subject != nil {
			d = f.At(*subject, d)
		}
		out = append(out, d)
	}
	return out
}

// explainer returns the error of the configuration function that caused h, or nil if h has another cause.
func explainer(h *hcl.Diagnostic) Explainer {
	call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](h)
	if !ok {
		return nil
	}
	e, _ := errors.AsType[Explainer](call.FunctionCallError())
	return e
}

// AllExplained reports whether all diagnostics in ds are failures of configuration functions. In that case the text itself is
// correct, and only something that it refers to is missing.
func AllExplained(ds hcl.Diagnostics) bool {
	for _, h := range ds {
		if explainer(h) == nil {
			return false
		}
	}
	return len(ds) > 0
}

// ConvertNames is like [Files.Convert] for the diagnostics of a body. For unknown names it suggests one of names.
func (f Files) ConvertNames(ds hcl.Diagnostics, names []string, next string) Diagnostics {
	out := f.Convert(ds, next)
	for i, h := range ds {
		switch h.Summary {
		case "Unsupported argument", "Unsupported block type", "Extraneous JSON object property":
		default:
			continue
		}
		if out[i].Next != next || h.Subject == nil {
			continue
		}
		src := f[h.Subject.Filename]
		if from, to := h.Subject.Start.Byte, h.Subject.End.Byte; from >= 0 && from <= to && to <= len(src) {
			out[i].Next = DidYouMean(strings.Trim(string(src[from:to]), `"`), names, next)
		}
	}
	return out
}

// splitSuggestion cuts a trailing `Did you mean …?` off a detail.
func splitSuggestion(detail string) (rest, next string) {
	i := strings.LastIndex(detail, "Did you mean ")
	if i < 0 {
		return detail, ""
	}
	return strings.TrimSpace(detail[:i]), lowerFirst(detail[i:])
}

// lowerFirst converts the first letter to lower case, unless the word looks like an abbreviation.
func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[n:])
	if !unicode.IsUpper(r) || unicode.IsUpper(second) {
		return s
	}
	return string(unicode.ToLower(r)) + s[n:]
}
