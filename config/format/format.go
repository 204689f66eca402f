// Package format formats gantry.hcl.
//
// It owns the canonical layout of a native file. It does not know what the settings mean, or which files exist. It is a separate
// package so that commands which only read the configuration do not link the HCL writer.
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

// Format formats a file's text: indentation, aligned equal signs and spaces. It moves nothing to another line, and ends the file
// with one line break. JSON is returned unchanged, and so is a text with errors.
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
