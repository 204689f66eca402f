// Package syntax parses the bytes of a file to an HCL body, native or JSON.
//
// It owns the choice between the two, the limits of size and depth, and the messages for a file that cannot be parsed at all. It
// does not know what a file may contain.
//
// Start with [Parse].
package syntax

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"github.com/gantry-agent/gantry/config/diag"
)

const (
	// MaxBytes limits a file. The HCL library recurses for each operator of a chain: evaluating a sum of 500,000 numbers overflows
	// the stack, which ends the process without recovery. With this limit the longest chain uses a fifth of the stack. Real
	// configurations are about a hundredth of the limit.
	MaxBytes = 256 << 10
	// The parser also recurses for each bracket, and needs more stack for it.
	maxDepth = 500
)

// JSONSuffix is the extension of files in JSON syntax.
const JSONSuffix = ".json"

const next = "correct the text; `gantry config validate` checks it without running anything"

// Parse parses src, which is called name in ranges. With errors, the body contains the parts that could be parsed.
func Parse(src []byte, name string) (hcl.Body, diag.Diagnostics) {
	files := diag.Files{name: src}
	start := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	if len(src) > MaxBytes {
		return hcl.EmptyBody(), diag.Diagnostics{files.At(start, diag.Diagnostic{
			Severity: diag.Error, Summary: "the file is too large",
			Detail: fmt.Sprintf("It has %d bytes; the maximum is %d.", len(src), MaxBytes),
			Next:   "move long texts into separate files and read them with file()",
		})}
	}
	broken := func(at int, d diag.Diagnostic) (hcl.Body, diag.Diagnostics) {
		pos := hcl.Pos{Line: bytes.Count(src[:at], []byte{'\n'}) + 1, Column: 1, Byte: at}
		d.Severity = diag.Error
		return hcl.EmptyBody(), diag.Diagnostics{files.At(hcl.Range{Filename: name, Start: pos, End: pos}, d)}
	}
	// For a binary file or another encoding, the library would report each byte.
	if at := noText(src); at >= 0 {
		return broken(at, diag.Diagnostic{
			Summary: "the file is not UTF-8 text", Detail: fmt.Sprintf("This line contains the byte 0x%02x, which is invalid in UTF-8.", src[at]),
			Next: "save it as UTF-8, or use another file",
		})
	}
	if at := tooDeep(src); at >= 0 {
		return broken(at, diag.Diagnostic{
			Summary: "brackets are nested too deeply", Detail: fmt.Sprintf("More than %d brackets are open here.", maxDepth), Next: next,
		})
	}
	if strings.HasSuffix(name, JSONSuffix) {
		// The JSON parser rejects an empty file, while an empty native file is valid.
		if len(bytes.TrimSpace(src)) == 0 {
			return hcl.EmptyBody(), nil
		}
		f, ds := json.Parse(src, name)
		if f == nil || f.Body == nil {
			return hcl.EmptyBody(), files.Convert(ds, next)
		}
		return f.Body, files.Convert(ds, next)
	}
	f, ds := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if f == nil || f.Body == nil {
		return hcl.EmptyBody(), files.Convert(ds, next)
	}
	return f.Body, files.Convert(ds, next)
}

// noText returns the index of the first byte that is not valid UTF-8 text, or -1.
func noText(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == 0 || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// tooDeep returns the index at which more than maxDepth brackets are open, or -1. It also counts brackets in strings: a false
// positive would need hundreds of them.
func tooDeep(src []byte) int {
	depth, run := 0, 0
	for i, c := range src {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
		// Prefix operators nest as well: "- - - 1", "!!!true". Separator lines in comments stay far below the limit.
		switch c {
		case '-', '!', '?', ':', ' ', '\t':
			if run++; run > 100*maxDepth {
				return i
			}
		default:
			run = 0
		}
		if depth > maxDepth {
			return i
		}
	}
	return -1
}
