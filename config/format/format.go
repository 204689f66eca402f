// Package format lays out gantry.hcl.
//
// It owns: the canonical layout of a native file, and the difference to what is there. It must not know: what the file
// says, which files there are. It stands apart so that commands which only read configuration don't carry the writer.
//
// Start with [Format].
package format

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/syntax"
)

// Format lays out a file's text: indentation, columns of equal signs, spaces. It moves nothing to
// another line, and ends the file with one line break. JSON is
// returned as it is. With errors the text is returned unchanged.
func Format(src []byte, name string) ([]byte, diag.Diagnostics) {
	_, ds := syntax.Parse(src, name)
	if ds.HasErrors() || strings.HasSuffix(name, syntax.JSONSuffix) {
		return src, ds
	}
	out := bytes.TrimRight(hclwrite.Format(src), " \t\r\n")
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return out, ds
}
