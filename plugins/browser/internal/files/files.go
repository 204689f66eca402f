// Package files is what of a browser's files is the same wherever they come from: their names, the downloads that a browser reports, and the files of a run.
//
// It owns: safe names, names that are free, and the state of each download, managed files. It must not know: where files go, or who asks.
//
// Start with [Name] and [Watch].
package files

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
)

// maxName is the maximum length of a name in bytes; file systems have 255, of which a number for a free name needs some.
const maxName = 200

// noName is the name of a file whose own one says nothing.
const noName = "download"

// Name returns a name for a file that a page has named. It is a single element of a path, visible, and has no characters that mislead
// people or terminals.
func Name(s string) string {
	s = strings.ToValidUTF8(s, "")
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`<>:"|?*`, r) { // the latter are not possible everywhere
			return -1
		}
		return r
	}, s)
	s = strings.Trim(s, ". ") // the dots of a hidden file, and what Windows does not keep
	if s == "" {
		return noName
	}
	return shorten(s)
}

// shorten cuts a name so that its extension remains.
func shorten(s string) string {
	if len(s) <= maxName {
		return s
	}
	ext := filepath.Ext(s)
	if len(ext) > 20 {
		ext = ""
	}
	return strings.TrimRight(strings.ToValidUTF8(s[:maxName-len(ext)], ""), ". ") + ext
}

// maxTaken is how many names are tried.
const maxTaken = 10_000

// Free returns the name, or one like it that is not taken: "a (1).txt".
func Free(name string, taken func(string) bool) (string, error) {
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if stem == "" {
		stem, ext = name, ""
	}
	for i := range maxTaken {
		if i > 0 {
			name = fmt.Sprintf("%s (%d)%s", stem, i, ext)
		}
		if !taken(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("there are %d files with names like %q", maxTaken, name)
}
