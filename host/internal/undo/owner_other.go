//go:build !unix

package undo

import (
	"io/fs"
	"os"
)

// own does nothing: a new file belongs to whom its folder's rules say.
func own(*os.File, fs.FileInfo) {}

// names does not know of further names here.
func names(fs.FileInfo) int { return 1 }
