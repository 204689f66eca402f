// Package look reads, lists and searches files for a model.
//
// It owns: how much of a file or folder is returned, the format, and which folders are skipped. It must not know: calls, grants, or the
// process in which it runs.
//
// Start with [Request.Answer].
package look

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
)

const (
	// maxFileBytes is the maximum size of a file that is read or searched.
	maxFileBytes = 64 << 20
	// maxTextBytes is the maximum size of an answer. The model gets less.
	maxTextBytes = 512 << 10
	// maxLineBytes is the maximum length of a line in the answer.
	maxLineBytes = 2000
	// defaultLines is the number of lines that are read by default.
	defaultLines = 2000
)

// Request is a request to read, list or search. Exactly one field is set.
type Request struct {
	Read   *Read   `json:"read,omitempty"`
	List   *List   `json:"list,omitempty"`
	Search *Search `json:"search,omitempty"`
}

func refuse(format string, args ...any) error { return patch.Refusal(fmt.Sprintf(format, args...)) }

// Answer returns the text that the model reads. An error is a [patch.Refusal].
func (r Request) Answer() (string, error) {
	switch {
	case r.Read != nil:
		return r.Read.answer()
	case r.List != nil:
		return r.List.answer()
	case r.Search != nil:
		return r.Search.answer()
	}
	return "", refuse("the request is empty")
}

// Read requests lines of a text file.
type Read struct {
	Path   string `json:"path"`             // absolute
	Offset int    `json:"offset,omitempty"` // the first line, from 1; 0: 1
	Limit  int    `json:"limit,omitempty"`  // how many lines; 0: 2000
}

func (r *Read) answer() (string, error) {
	f, err := open(r.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	first, limit := max(r.Offset, 1), r.Limit
	if limit <= 0 {
		limit = defaultLines
	}
	var out strings.Builder
	shown, total := 0, 0
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", refuse("unable to read %s: %s", r.Path, patch.OSText(err))
		}
		total++
		if total >= first && shown < limit && out.Len() < maxTextBytes {
			fmt.Fprintf(&out, "%6d\t%s\n", total, line)
			shown++
		}
	}
	switch last := first + shown - 1; {
	case total == 0:
		return "The file is empty.", nil
	case shown == 0:
		return "", refuse("%s has only %d lines", r.Path, total)
	case last < total:
		fmt.Fprintf(&out, "… lines %d to %d of %d; go on with offset %d\n", first, last, total, last+1)
	}
	return out.String(), nil
}

// open opens a text file. It rejects folders, special files, large files and binary files.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, refuse("unable to read %s: %s", path, patch.OSText(err))
	}
	if info.IsDir() {
		return nil, refuse("%s is a folder; list_files shows what is in it", path)
	}
	if !info.Mode().IsRegular() {
		return nil, refuse("path `%s` is not a file", path)
	}
	if info.Size() > maxFileBytes {
		return nil, refuse("%s is larger than %d bytes; use a command to look into it", path, maxFileBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, refuse("unable to read %s: %s", path, patch.OSText(err))
	}
	if binary(f) {
		f.Close()
		return nil, refuse("%s is not a text file", path)
	}
	return f, nil
}

// binary reports whether there are NUL bytes at the beginning of a file, as in most binary formats. It resets the file's position.
func binary(f *os.File) bool {
	head := make([]byte, 8000)
	n, _ := io.ReadFull(f, head)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return true
	}
	return bytes.IndexByte(head[:n], 0) >= 0
}

// readLine returns the next line without its ending, cut to maxLineBytes.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	cut, any := false, false
	for {
		piece, more, err := in.ReadLine()
		if err != nil {
			if any && errors.Is(err, io.EOF) {
				break
			}
			return "", err
		}
		any = true
		if room := maxLineBytes - len(line); len(piece) > room {
			piece, cut = piece[:room], true
		}
		line = append(line, piece...)
		if !more {
			break
		}
	}
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if cut {
		text += "…"
	}
	return text, nil
}

// skippedDirs are folders without source text.
var skippedDirs = map[string]bool{".git": true, ".hg": true, ".svn": true, "node_modules": true}

// walk visits everything below root in lexical order, ignoring what can't be read. relative is separated by slashes.
func walk(root string, visit func(path, relative string, e fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if path == root {
			return err
		}
		if err != nil {
			return nil
		}
		if e.IsDir() && skippedDirs[e.Name()] {
			return filepath.SkipDir
		}
		rel, rerr := filepath.Rel(root, path)
		if rerr != nil {
			return nil
		}
		return visit(path, filepath.ToSlash(rel), e)
	})
}
