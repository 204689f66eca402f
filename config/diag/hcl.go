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

// Place gives d a range that was translated already, with its snippet.
func (f Files) Place(r Range, d Diagnostic) Diagnostic {
	if r.IsZero() || r.Start.Line == 0 {
		d.Range = r
		return d
	}
	return f.At(hcl.Range{Filename: r.File, Start: hcl.Pos(r.Start), End: hcl.Pos(r.End)}, d)
}

// Explainer is implemented by errors of configuration functions that know better words than HCL's general ones for a
// failed call: a summary, a detail, a next step, and which argument is to blame.
type Explainer interface {
	error
	Explain() (summary, detail, next string, argument int)
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

// explainer returns the error of a configuration function that caused h, nil when something else did.
func explainer(h *hcl.Diagnostic) Explainer {
	call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](h)
	if !ok {
		return nil
	}
	e, _ := errors.AsType[Explainer](call.FunctionCallError())
	return e
}

// AllExplained reports whether every problem in ds comes from a configuration function that could not deliver: then
// nothing is wrong with the text, only with the moment and place.
func AllExplained(ds hcl.Diagnostics) bool {
	for _, h := range ds {
		if explainer(h) == nil {
			return false
		}
	}
	return len(ds) > 0
}

// ConvertNames is [Files.Convert] for what a body says about its names: unknown ones get a suggestion from names.
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
