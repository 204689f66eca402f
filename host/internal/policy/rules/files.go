package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"
	"go.starlark.net/starlark"
)

// Names of files and folders.
const (
	Folder  = "rules"         // of a configuration layer
	Suffix  = ".rules"        // of rules files
	Written = "default.rules" // which gantry adds the user's answers to
)

// Read reads the rules files of a folder, sorted by name. There are none if the folder does not exist. After an error it is not known what
// the rules forbid.
func Read(folder string) ([]Source, error) {
	info, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Path: folder, Reason: reason(err)}
	}
	if !info.IsDir() {
		return nil, &Error{Path: folder, Reason: "it must be a folder with *" + Suffix + " files"}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, &Error{Path: folder, Reason: reason(err)}
	}
	var out []Source
	for _, e := range entries { // sorted by name
		if !strings.HasSuffix(e.Name(), Suffix) {
			continue
		}
		s, err := ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// ReadFile reads a rules file. Only regular files are read, as a pipe could block forever.
func ReadFile(name string) (Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Source{}, &Error{Path: name, Reason: reason(err)}
	}
	if !info.Mode().IsRegular() {
		return Source{}, &Error{Path: name, Reason: "it is not a regular file"}
	}
	f, err := os.Open(name)
	if err != nil {
		return Source{}, &Error{Path: name, Reason: reason(err)}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Source{}, &Error{Path: name, Reason: reason(err)}
	}
	return Source{Path: name, Text: string(text)}, nil
}

func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return "it can't be read: " + err.Error()
}

// PrefixLine returns the line of a rule that allows commands that begin with words, which must be UTF-8.
func PrefixLine(pattern []string) string {
	words := make([]string, len(pattern))
	for i, w := range pattern {
		words[i] = starlark.String(w).String()
	}
	return fmt.Sprintf(`prefix_rule(pattern=[%s], decision="allow")`, strings.Join(words, ", "))
}

// NetworkLine returns the line of a rule for a host. The decision is "allow" or "deny".
func NetworkLine(host, protocol, decision string) string {
	verb := "Allow"
	if decision != "allow" {
		verb = "Deny"
	}
	q := func(s string) string { return starlark.String(s).String() }
	return fmt.Sprintf(`network_rule(host=%s, protocol=%s, decision=%s, justification=%s)`,
		q(host), q(protocol), q(decision), q(fmt.Sprintf("%s %s access to %s", verb, protocol, host)))
}

// Append adds a line to a rules file that does not have it yet. It creates the file and its folder if necessary. The file is locked, so
// several programs may call Append concurrently. A file that would become invalid is not changed.
func Append(_ context.Context, name, line string) error {
	if strings.ContainsAny(line, "\r\n") {
		return fmt.Errorf("write %s: a rule is one line", name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f, err := lockedfile.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = add(f, name, line)
	return errors.Join(err, f.Close())
}

func add(f *lockedfile.File, name, line string) error {
	old, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if slices.Contains(strings.Split(string(old), "\n"), line) {
		return nil
	}
	text := line + "\n"
	if len(old) > 0 && old[len(old)-1] != '\n' {
		text = "\n" + text
	}
	if _, err := Load([]Source{{Path: name, Text: string(old) + text}}); err != nil {
		return fmt.Errorf("nothing was written, as the file would be invalid: %w", err)
	}
	// A single write at the end: if the program is interrupted, the old rules are intact.
	if _, err := f.WriteAt([]byte(text), int64(len(old))); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
