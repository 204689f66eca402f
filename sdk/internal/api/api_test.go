package api

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update-api", false, "write testdata/api.txt anew")

// The API must remain compatible: each addition is a line to review, and each removed line needs a reason.
func TestAPI(t *testing.T) {
	root := filepath.Join("..", "..")
	watchSources(t, root)
	golden := filepath.Join(root, "testdata", "api.txt")
	got, err := Text(root)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) == got {
		return
	}
	was, is := strings.Split(string(b), "\n"), strings.Split(got, "\n")
	for _, l := range was {
		if !slices.Contains(is, l) {
			t.Errorf("- %s", l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			t.Errorf("+ %s", l)
		}
	}
	t.Errorf("the exported API of the SDK differs from sdk/testdata/api.txt; if that is meant, run in sdk: go test ./internal/api -update-api")
}

// watchSources looks at every folder, so that the go command's cache of test results knows what this test depends on.
func watchSources(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(_ string, _ fs.DirEntry, err error) error { return err })
	if err != nil {
		t.Fatal(err)
	}
}

func TestTextListsEachKind(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module example.com/sdk\n\ngo 1.26\n",
		"thing/thing.go": `package thing

import "io"

const A, B Kind = 1, 2

type Kind int

func (k Kind) String() string { return "" }

type Struct struct {
	Field  string ` + "`json:\"field\"`" + `
	hidden int
	io.Reader
}

func (s *Struct) Do(n int, more ...string) (err error) { return nil }
func (s *Struct) hide() {}

type Sealed interface {
	io.Closer
	Open() error
	sealed()
}

type Pair[K comparable, V any] struct{ Key K }

func Map[A, B any](in []A, f func(A) B) []B { return nil }

type Alias = io.Writer

var Default = &Struct{}

func unexported() {}
`,
		"thing/internal/hidden/hidden.go": "package hidden\n\nfunc Hidden() {}\n",
		"cmd/main.go":                     "package main\n\nfunc Exported() {}\n\nfunc main() {}\n",
		"thing/thing_windows.go":          "package thing\n\nfunc Elsewhere() {}\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	got, err := Text(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
pkg thing, const A Kind = 1
pkg thing, const B Kind = 2
pkg thing, func Map[A, B any](in []A, f func(A) B) []B
pkg thing, method (*Struct) Do(n int, more ...string) (err error)
pkg thing, method (Kind) String() string
pkg thing, type Alias = io.Writer
pkg thing, type Kind int
pkg thing, type Pair[K comparable, V any] struct
pkg thing, type Pair[K comparable, V any] struct, Key K
pkg thing, type Sealed interface
pkg thing, type Sealed interface, Open() error
pkg thing, type Sealed interface, embedded io.Closer
pkg thing, type Sealed interface, unexported methods
pkg thing, type Struct struct
pkg thing, type Struct struct, Field string "json:\"field\""
pkg thing, type Struct struct, embedded io.Reader
pkg thing, var Default *Struct
`, "\n")
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
