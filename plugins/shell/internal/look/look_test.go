package look

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func put(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// check compares the answer, or the refusal behind "! ".
func check(t *testing.T, dir string, r Request, want string) {
	t.Helper()
	got, err := r.Answer()
	if err != nil {
		got = "! " + err.Error()
	}
	if got = strings.ReplaceAll(got, dir, "{dir}"); got != want {
		t.Errorf("answer = %q, want %q", got, want)
	}
}

func TestRead(t *testing.T) {
	long := strings.Repeat("x", maxLineBytes)
	dir := put(t, t.TempDir(), map[string]string{
		"a": "one\ntwo\nthree\n", "crlf": "one\r\ntwo", "empty": "", "blank": "\n", "long": long + "yz\n" + long + "\n", "bin": "a\x00b",
		"latin": "caf\xe9\n", "many": strings.Repeat("l\n", 3000), "d/x": "",
	})
	for _, tt := range []struct {
		name string
		read Read
		want string
	}{
		{"all", Read{Path: "a"}, "     1\tone\n     2\ttwo\n     3\tthree\n"},
		{"from a line on", Read{Path: "a", Offset: 2}, "     2\ttwo\n     3\tthree\n"},
		{"a few", Read{Path: "a", Offset: 2, Limit: 1}, "     2\ttwo\n… lines 2 to 2 of 3; go on with offset 3\n"},
		{"before the first", Read{Path: "a", Offset: -3, Limit: 1}, "     1\tone\n… lines 1 to 1 of 3; go on with offset 2\n"},
		{"behind the end", Read{Path: "a", Offset: 4}, "! {dir}/a has only 3 lines"},
		{"crlf, no ending", Read{Path: "crlf"}, "     1\tone\n     2\ttwo\n"},
		{"empty", Read{Path: "empty"}, "The file is empty."},
		{"a blank line", Read{Path: "blank"}, "     1\t\n"},
		{"long lines", Read{Path: "long"}, "     1\t" + long + "…\n     2\t" + long + "\n"},
		{"binary", Read{Path: "bin"}, "! {dir}/bin is not a text file"},
		{"latin-1", Read{Path: "latin"}, "     1\tcaf\uFFFD\n"},
		{"a folder", Read{Path: "d"}, "! {dir}/d is a folder; list_files shows what is in it"},
		{"missing", Read{Path: "none"}, "! unable to read {dir}/none: No such file or directory (os error 2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.read.Path = filepath.Join(dir, tt.read.Path)
			check(t, dir, Request{Read: &tt.read}, tt.want)
		})
	}
	many, err := Request{Read: &Read{Path: filepath.Join(dir, "many")}}.Answer()
	if err != nil || !strings.HasSuffix(many, "  2000\tl\n… lines 1 to 2000 of 3000; go on with offset 2001\n") {
		t.Errorf("many lines: %v, …%q", err, many[max(0, len(many)-100):])
	}
	if runtime.GOOS == "linux" {
		check(t, dir, Request{Read: &Read{Path: "/dev/null"}}, "! path `/dev/null` is not a file")
	}
}

func TestReadIsBounded(t *testing.T) {
	dir := put(t, t.TempDir(), map[string]string{"f": strings.Repeat(strings.Repeat("x", 1000)+"\n", 2000)})
	got, err := Request{Read: &Read{Path: filepath.Join(dir, "f")}}.Answer()
	if err != nil || len(got) > maxTextBytes+2*maxLineBytes || !strings.Contains(got, " of 2000; go on with offset ") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := os.Truncate(filepath.Join(dir, "f"), maxFileBytes+1); err != nil {
		t.Fatal(err)
	}
	check(t, dir, Request{Read: &Read{Path: filepath.Join(dir, "f")}}, fmt.Sprintf("! {dir}/f is larger than %d bytes; use a command to look into it", maxFileBytes))
}

func TestList(t *testing.T) {
	dir := put(t, t.TempDir(), map[string]string{
		"a.go": "", "b.txt": "", "x/c.go": "", "x/y/d.go": "", "x/y/z/e.go": "", ".git/config": "", ".hidden": "", "node_modules/m.go": "",
	})
	for _, tt := range []struct {
		name string
		list List
		want string
	}{
		{"two levels", List{}, ".hidden\na.go\nb.txt\nx/\nx/c.go\nx/y/\n"},
		{"one level", List{Depth: 1}, ".hidden\na.go\nb.txt\nx/\n"},
		{"names", List{Glob: "*.go"}, "a.go\nx/c.go\nx/y/d.go\nx/y/z/e.go\n"},
		{"names, not deep", List{Glob: "*.go", Depth: 2}, "a.go\nx/c.go\n"},
		{"paths", List{Glob: "x/**/*.go"}, "x/c.go\nx/y/d.go\nx/y/z/e.go\n"},
		{"either", List{Glob: "{a,b}.*"}, "a.go\nb.txt\n"},
		{"further down", List{Path: "x/y/z"}, "e.go\n"},
		{"nothing", List{Glob: "*.rs"}, "Nothing found."},
		{"no glob", List{Glob: "[a"}, `! glob "[a" is not valid: use *, **, ?, [a-z] and {a,b}`},
		{"a file", List{Path: "a.go"}, "! {dir}/a.go is not a folder"},
		{"missing", List{Path: "none"}, "! unable to read {dir}/none: No such file or directory (os error 2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.list.Path = filepath.Join(dir, tt.list.Path)
			check(t, dir, Request{List: &tt.list}, tt.want)
		})
	}
	files := map[string]string{}
	for i := range maxEntries + 1 {
		files[fmt.Sprintf("many/%04d", i)] = ""
	}
	put(t, dir, files)
	got, err := Request{List: &List{Path: filepath.Join(dir, "many")}}.Answer()
	if err != nil || strings.Count(got, "\n") != maxEntries+1 || !strings.HasSuffix(got, "0999\n… and more than these 1000: ask for a folder further down, or with a glob\n") {
		t.Errorf("many: %d lines, %v", strings.Count(got, "\n"), err)
	}
}

func TestSearch(t *testing.T) {
	dir := put(t, t.TempDir(), map[string]string{
		"a.go": "package a\nfunc A() {}\n", "x/b.go": "package b\n\nfunc B() {}", "c.txt": "func in words\r\n", "bin": "func\x00",
		".git/config": "func", "long": "func " + strings.Repeat("é", 400) + "\n",
	})
	for _, tt := range []struct {
		name   string
		search Search
		want   string
	}{
		{"everywhere", Search{Pattern: `func [A-Z]`}, "a.go:2: func A() {}\nx/b.go:3: func B() {}\n"},
		{"in names", Search{Pattern: "func", Glob: "*.txt"}, "c.txt:1: func in words\n"},
		{"in paths", Search{Pattern: "^package", Glob: "x/*"}, "x/b.go:1: package b\n"},
		{"in a file", Search{Path: "a.go", Pattern: "A"}, "a.go:2: func A() {}\n"},
		{"without regard to case", Search{Pattern: "(?i)PACKAGE A"}, "a.go:1: package a\n"},
		{"a few", Search{Pattern: "package", Limit: 1}, "a.go:1: package a\n… and more than these 1: ask for less, with another pattern or a glob\n"},
		{"as many as there are", Search{Pattern: "package", Limit: 2}, "a.go:1: package a\nx/b.go:1: package b\n"},
		{"a long line", Search{Pattern: "é", Glob: "long"}, "long:1: func " + strings.Repeat("é", 147) + "…\n"},
		{"nothing", Search{Pattern: "nowhere"}, "Nothing found."},
		{"no pattern", Search{Pattern: "a("}, "! pattern: error parsing regexp: missing closing ): `a(`"},
		{"no glob", Search{Pattern: "a", Glob: "{"}, `! glob "{" is not valid: use *, **, ?, [a-z] and {a,b}`},
		{"binary", Search{Path: "bin", Pattern: "func"}, "! {dir}/bin is not a text file"},
		{"missing", Search{Path: "none", Pattern: "a"}, "! unable to read {dir}/none: No such file or directory (os error 2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.search.Path = filepath.Join(dir, tt.search.Path)
			check(t, dir, Request{Search: &tt.search}, tt.want)
		})
	}
}

func TestEmptyRequest(t *testing.T) { check(t, t.TempDir(), Request{}, "! the request is empty") }
