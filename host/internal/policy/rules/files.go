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

// Folder is the name of the folder in which a layer has its rules, Suffix how their names end, and Written the file that gantry
// adds the user's answers to.
const (
	Folder  = "rules"
	Suffix  = ".rules"
	Written = "default.rules"
)

// Read reads the rules files of a folder, sorted by name. A folder that is not there has none. An error means that something is
// there and can't be read: then it is not known what it forbids.
func Read(folder string) ([]Source, error) {
	info, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Path: folder, Reason: reason(err)}
	}
	if !info.IsDir() {
		return nil, &Error{Path: folder, Reason: "it has to be a folder with *" + Suffix + " files"}
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

// ReadFile reads one rules file. Anything but a regular file is refused: a pipe would block for ever.
func ReadFile(name string) (Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Source{}, &Error{Path: name, Reason: reason(err)}
	}
	if !info.Mode().IsRegular() {
		return Source{}, &Error{Path: name, Reason: "it is no regular file"}
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

// PrefixLine is the line of a rule that allows commands beginning with the words, which have to be UTF-8.
func PrefixLine(pattern []string) string {
	words := make([]string, len(pattern))
	for i, w := range pattern {
		words[i] = starlark.String(w).String()
	}
	return fmt.Sprintf(`prefix_rule(pattern=[%s], decision="allow")`, strings.Join(words, ", "))
}

// NetworkLine is the line of a rule for a host. The decision is "allow" or "deny".
func NetworkLine(host, protocol, decision string) string {
	verb := "Allow"
	if decision != "allow" {
		verb = "Deny"
	}
	q := func(s string) string { return starlark.String(s).String() }
	return fmt.Sprintf(`network_rule(host=%s, protocol=%s, decision=%s, justification=%s)`,
		q(host), q(protocol), q(decision), q(fmt.Sprintf("%s %s access to %s", verb, protocol, host)))
}

// Append adds a line to a rules file, unless it stands there already. The file and its folder are made where they are missing. The
// file is locked meanwhile, so that several programs may do so at once. A file that would be broken is left as it is.
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
		return fmt.Errorf("nothing was written, the file would be broken: %w", err)
	}
	// One write at the end: a program that ends in the middle of it has left the old rules whole.
	if _, err := f.WriteAt([]byte(text), int64(len(old))); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
