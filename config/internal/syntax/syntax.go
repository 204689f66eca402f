// Package syntax turns the bytes of a file into an HCL body, native or JSON.
//
// It owns: which of the two it is, the limits of size and depth, and the words for a file that can't be read at all. It
// must not know: what may stand in the file.
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
	// MaxBytes of one file. The library calls itself for each operator of a chain: evaluating a sum of 500,000 numbers ends
	// the process, and nothing can recover from that. With this bound the longest chain takes a fifth of the stack, and
	// configuration that people write is a hundredth of it.
	MaxBytes = 256 << 10
	// The parser calls itself for each bracket, too, and takes more stack for it.
	maxDepth = 500
)

// JSONSuffix ends the name of a file in JSON syntax.
const JSONSuffix = ".json"

const next = "correct the text; `gantry config validate` checks it without running anything"

// Parse reads src, named name in ranges. The body holds what could be understood, also when there are errors.
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
	// The library complains about each byte of a program, or of a text in another encoding.
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
		// The library reads an empty file as a broken one; an empty native file is fine.
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

// noText returns the first byte that is no text in UTF-8, or -1.
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

// tooDeep returns where more than maxDepth brackets are open, else -1. Brackets in strings count too: a false alarm
// needs hundreds of them.
func tooDeep(src []byte) int {
	depth, run := 0, 0
	for i, c := range src {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
		// Operators in front of an operand nest as well: "- - - 1", "!!!true". Rulers in comments stay far below.
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
