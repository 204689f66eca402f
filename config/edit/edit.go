// Package edit changes gantry.hcl for the user and preserves the rest of the file: comments, order, spacing.
//
// It owns adding and removing a block of a native file, setting and removing an argument, and the atomic replacement of the file. It does
// not know which file it is, what a block means, or who requested the change.
//
// Start with [Update]; [Add], [Remove] and [Apply] are the changes.
package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/durable"
	"github.com/gantry-agent/gantry/config/internal/syntax"
)

// Update calls change with the text of the file at path, or nil if it does not exist, and atomically replaces the file with the
// result. A new file gets the mode perm, an existing one keeps its mode. If path is a symbolic link, its target is changed.
func Update(ctx context.Context, path string, perm fs.FileMode, change func(old []byte) ([]byte, error)) error {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		real = path
	case err != nil:
		return fmt.Errorf("edit %s: %w", path, err)
	}
	if info, err := os.Stat(real); err == nil {
		perm = info.Mode().Perm()
	}
	return durable.Update(ctx, real, perm, change)
}

// Block identifies a block such as `plugin "weather"`, or `sandbox`, which has no label.
type Block struct{ Type, Label string }

// String returns the block's header.
func (b Block) String() string {
	if b.Label == "" {
		return b.Type
	}
	return fmt.Sprintf("%s %q", b.Type, b.Label)
}

// Argument is an argument with a string value.
type Argument struct{ Name, Value string }

// Add appends a block with the given arguments to a file's text. name is the file's name in messages.
func Add(src []byte, name string, b Block, arguments ...Argument) ([]byte, error) {
	there, err := find(src, name, b)
	if err != nil {
		return nil, err
	}
	if there != nil {
		return nil, fmt.Errorf("%s:%d already has a block %s", name, there.TypeRange.Start.Line, b)
	}
	added := hclwrite.NewEmptyFile()
	body := added.Body().AppendNewBlock(b.Type, []string{b.Label}).Body()
	for _, a := range arguments {
		body.SetAttributeValue(a.Name, cty.StringVal(a.Value))
	}
	out := bytes.TrimRight(src, " \t\r\n")
	if len(out) > 0 {
		out = append(slices.Clone(out), "\n\n"...)
	}
	return append(out, hclwrite.Format(added.Bytes())...), nil
}

// Remove removes a block from a file's text, together with the comment directly above it. It reports whether the block existed.
func Remove(src []byte, name string, b Block) (out []byte, removed bool, err error) {
	block, err := find(src, name, b)
	if err != nil || block == nil {
		return src, false, err
	}
	from, to := lines(src, block.TypeRange.Start.Byte, block.CloseBraceRange.End.Byte)
	before, after := src[:from], bytes.TrimLeft(src[to:], "\r\n") // one of the two gaps is removed with the block
	if len(bytes.TrimSpace(after)) == 0 {
		before, after = bytes.TrimRight(before, " \t\r\n"), nil
		if len(before) > 0 {
			after = []byte("\n")
		}
	}
	return slices.Concat(before, after), true, nil
}

// Has reports whether a file's text has a block.
func Has(src []byte, name string, b Block) (bool, error) {
	block, err := find(src, name, b)
	return block != nil, err
}

// lines extends a part of the text to whole lines and the comment above them.
func lines(src []byte, from, to int) (int, int) {
	from = bytes.LastIndexByte(src[:from], '\n') + 1
	for from > 0 {
		above := bytes.LastIndexByte(src[:from-1], '\n') + 1
		text := bytes.TrimLeft(src[above:from], " \t")
		if !bytes.HasPrefix(text, []byte("#")) && !bytes.HasPrefix(text, []byte("//")) {
			break
		}
		from = above
	}
	if i := bytes.IndexByte(src[to:], '\n'); i >= 0 {
		return from, to + i + 1
	}
	return from, len(src)
}

func find(src []byte, name string, b Block) (*hclsyntax.Block, error) {
	body, err := native(src, name, fmt.Sprintf("edit the block %s by hand", b))
	if err != nil {
		return nil, err
	}
	return child(body, b), nil
}

// native parses a file. next is the next step if it is not in HCL's native syntax.
func native(src []byte, name, next string) (*hclsyntax.Body, error) {
	body, ds := syntax.Parse(src, name)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{{
			Severity: diag.Error, Summary: "gantry can't edit a JSON file", Range: diag.Range{File: name}, Next: next,
		}}}
	}
	return native, nil
}
