package files

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Types are the types of managed files, by their extensions.
func Types() []string { return []string{"csv", "html", "json", "jsonl", "md", "txt", "xml"} }

const (
	// maxManaged is the maximum size of a managed file.
	maxManaged = 4 << 20
	// maxManagedFiles is their number.
	maxManagedFiles = 200
	// todo is the file that is always there; it is shown apart from the others.
	todo = "todo.md"
)

// unwanted is what the names of managed files do not contain: letters and digits without accents and Chinese, Japanese and Korean ones are kept.
var unwanted = regexp.MustCompile(`[^A-Za-z0-9_\-.() \x{3040}-\x{30ff}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{ac00}-\x{d7af}]`)

var dashes = regexp.MustCompile(`-{2,}`)

// ManagedName returns the name of a managed file for what a model has written. It differs if that was not possible.
func ManagedName(s string) (string, error) {
	base := s[strings.LastIndexAny(s, `/\`)+1:]
	ext := filepath.Ext(base)
	kind := strings.ToLower(strings.TrimPrefix(ext, "."))
	if !slices.Contains(Types(), kind) {
		return "", fmt.Errorf("%q is not the name of a file here; use letters, digits, - and _, and one of the extensions %s", s, "."+strings.Join(Types(), ", ."))
	}
	stem := unwanted.ReplaceAllString(strings.TrimSuffix(base, ext), "")
	stem = strings.Trim(dashes.ReplaceAllString(stem, "-"), "-. ")
	if stem == "" {
		stem = "file"
	}
	return shorten(stem + "." + kind), nil
}

// Managed are the files that a run of an agent writes for itself and its user. They are in memory, so that they can be part of a checkpoint. It
// is not safe for concurrent use.
type Managed struct {
	Files map[string]string `json:"files"` // content by name
}

// Problem is an error of a model that uses the files, in the words of the reference.
type Problem string

// Error implements error.
func (p Problem) Error() string { return string(p) }

func notFound(name string) Problem { return Problem(fmt.Sprintf("File '%s' not found.", name)) }

// NewManaged returns files of which todo.md is empty.
func NewManaged() *Managed { return &Managed{Files: map[string]string{todo: ""}} }

// Names returns the names, in order.
func (m *Managed) Names() []string { return slices.Sorted(maps.Keys(m.Files)) }

// Write writes a file and says so. If append is set, it is there already, and the content is added to it.
func (m *Managed) Write(name, content string, add bool) (string, error) {
	n, err := ManagedName(name)
	if err != nil {
		return "", err
	}
	old, ok := m.Files[n]
	if add && !ok {
		return "", notFound(n)
	}
	done := "written"
	if add {
		content, done = old+content, "appended"
	}
	if content, err = normal(filepath.Ext(n), content); err != nil {
		return "", fmt.Errorf("%s: %w", n, err)
	}
	switch {
	case len(content) > maxManaged:
		return "", fmt.Errorf("%s would be larger than %d MB", n, maxManaged>>20)
	case !ok && len(m.Files) >= maxManagedFiles:
		return "", fmt.Errorf("there are %d files already", len(m.Files))
	}
	m.Files[n] = content
	return fmt.Sprintf("Data %s to file %s successfully.", done, n) + corrected(name, n), nil
}

// corrected says that a name was changed.
func corrected(was, is string) string {
	if was == is {
		return ""
	}
	return fmt.Sprintf(" (%q is no possible name)", was)
}

// normal returns the content as its type writes it.
func normal(ext, content string) (string, error) {
	if ext != ".csv" || strings.TrimSpace(content) == "" {
		return content, nil
	}
	r := csv.NewReader(strings.NewReader(content))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return "", fmt.Errorf("it is not CSV: %w", err)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(rows); err != nil {
		return "", err
	}
	return b.String(), nil
}

// Replace replaces all occurrences of a text.
func (m *Managed) Replace(name, old, text string) (string, error) {
	n, err := ManagedName(name)
	if err != nil {
		return "", err
	}
	content, ok := m.Files[n]
	switch {
	case old == "":
		return "", Problem("Cannot replace empty string. Please provide a non-empty string to replace.")
	case !ok:
		return "", notFound(n)
	case !strings.Contains(content, old):
		return "", fmt.Errorf("%s does not contain %q", n, old)
	case len(content)+strings.Count(content, old)*(len(text)-len(old)) > maxManaged:
		return "", fmt.Errorf("%s would be larger than %d MB", n, maxManaged>>20)
	}
	m.Files[n] = strings.ReplaceAll(content, old, text)
	return fmt.Sprintf("Successfully replaced all occurrences of %q with %q in file %s", old, text, n) + corrected(name, n), nil
}

// Read returns a file as a model reads it.
func (m *Managed) Read(name string) (string, error) {
	n, err := ManagedName(name)
	if err != nil {
		return "", err
	}
	content, ok := m.Files[n]
	if !ok {
		return "", notFound(n)
	}
	return fmt.Sprintf("Read from file %s.\n<content>\n%s\n</content>", n, content), nil
}

// Describe describes the files for a model, without todo.md: small ones whole, of others the beginning and the end, between lines where possible.
func (m *Managed) Describe() string {
	const whole, end = 600, 200
	var b strings.Builder
	for _, n := range m.Names() {
		content := m.Files[n]
		switch {
		case n == todo:
		case content == "":
			fmt.Fprintf(&b, "<file>\n%s - [empty file]\n</file>\n", n)
		case len(content) <= whole:
			fmt.Fprintf(&b, "<file>\n%s - %d lines\n<content>\n%s\n</content>\n</file>\n", n, lines(content), content)
		default:
			first, last := strings.ToValidUTF8(content[:end], ""), strings.ToValidUTF8(content[len(content)-end:], "")
			left := max(0, lines(content)-lines(first)-lines(last))
			fmt.Fprintf(&b, "<file>\n%s - %d lines\n<content>\n%s\n... %d more lines ...\n%s\n</content>\n</file>\n", n, lines(content), first, left, last)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func lines(s string) int { return strings.Count(strings.TrimSuffix(s, "\n"), "\n") + 1 }

// Restore returns the files of a checkpoint, which is Managed as JSON.
func Restore(b []byte) (*Managed, error) {
	var was Managed
	if err := json.Unmarshal(b, &was); err != nil {
		return nil, fmt.Errorf("the files of the checkpoint are not valid: %w", err)
	}
	m := NewManaged()
	for n, content := range was.Files {
		if is, err := ManagedName(n); err != nil || is != n || len(content) > maxManaged || len(m.Files) >= maxManagedFiles {
			return nil, fmt.Errorf("the files of the checkpoint are not valid: %q", n)
		}
		m.Files[n] = content
	}
	return m, nil
}
