package ignore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/host/internal/workbench/ignore"
)

// excluded applies lists as a walk does: what is in an excluded folder is not looked at.
func excluded(l *ignore.List, path string, folder bool) bool {
	parts := strings.Split(path, "/")
	for i := range parts {
		if l.Excludes(parts[:i+1], folder || i < len(parts)-1) {
			return true
		}
	}
	return false
}

func TestExcludes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ patterns, excludes, keeps string }{
		{"*.o", "a.o sub/a.o .o", "a.c a.ox"},
		{"build/", "build/ sub/build/ build/x", "build sub/build"},
		{"/build", "build build/x", "sub/build"},
		{"doc/*.txt", "doc/a.txt", "doc/sub/a.txt sub/doc/a.txt"},
		{"**/foo", "foo a/foo a/b/foo", "foox"},
		{"**/foo/bar", "foo/bar a/foo/bar", "foo/x/bar bar"},
		{"abc/**", "abc/x abc/x/y", "abc/ x/abc/y"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "a/x c/a/b"},
		{"*.log\n!keep.log", "a.log sub/a.log", "keep.log sub/keep.log"},
		{"/*\n!/foo\n/foo/*\n!/foo/bar", "x foo/x", "foo/ foo/bar"},
		{"# comment\n\n\\#x\n\\!y", "#x !y", "x y"},
		{"a \nb\\ ", "a", "b"},
		{"[a-c]?\n[!x]y\n[[:digit:]]*", "bz ay 1x", "dz xy"},
		{"[]a]", "] a", "b"},
		{"[z\nx\\", "", "[z z x"},
		{"foo\r\n", "foo", "bar"},
		{"\uFEFFfoo", "foo", ""},
		{"*", "a a/b", ""},
	} {
		l := ignore.Parse(nil, "", tc.patterns)
		for want, paths := range map[bool]string{true: tc.excludes, false: tc.keeps} {
			for _, path := range strings.Fields(paths) {
				path, folder := strings.CutSuffix(path, "/")
				if got := excluded(l, path, folder); got != want {
					t.Errorf("%q: %q excluded is %v", tc.patterns, path, got)
				}
			}
		}
	}
}

func TestDeeperListsTakePrecedence(t *testing.T) {
	t.Parallel()
	top := ignore.Parse(nil, "", "*.log\n/sub/x")
	sub := ignore.Parse(top, "sub", "!b.log\n/y")
	for path, want := range map[string]bool{"sub/a.log": true, "sub/b.log": false, "sub/x": true, "sub/y": true, "sub/z/y": false, "sub/z/a.log": true} {
		if got := sub.Excludes(strings.Split(path, "/"), false); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// git decides the same about random patterns and files.
func TestAgreesWithGit(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	run := func(in string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
		cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if e, ok := err.(*exec.ExitError); err != nil && !(ok && e.ExitCode() == 1) {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	run("", "init", "-q", ".")
	names := []string{"a", "b", "ab", "a.o", "ba.o"}
	var paths []string
	folders := map[string]bool{}
	for _, x := range names[:3] {
		for _, y := range names[:3] {
			for _, z := range names {
				paths = append(paths, x+"/"+y+"/"+z)
			}
			folders[x+"/"+y] = true
			paths = append(paths, x+"/"+y)
		}
		folders[x] = true
		paths = append(paths, x)
	}
	for f := range folders {
		if err := os.MkdirAll(filepath.Join(dir, f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range paths {
		if !folders[p] {
			if err := os.WriteFile(filepath.Join(dir, p), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Not "b[": for git a set may contain a slash. Not "a**": git strips the literal beginning of a pattern, and takes what follows for a "**" of its own.
	part := rapid.SampledFrom([]string{"a", "b", "ab", "a.o", "*", "*.o", "?", "a*", "**", "[ab]", "[!a]*", "[^b]", "a?", "*b*", `\a`, "[]a]", "[a-b]*", "[[:alpha:]]"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "/")
		return rapid.SampledFrom([]string{"", "!", "/", "!/"}).Draw(t, "before") + s + rapid.SampledFrom([]string{"", "", "/", " "}).Draw(t, "after")
	})
	rapid.Check(t, func(t *rapid.T) {
		top := strings.Join(rapid.SliceOfN(pattern, 0, 4).Draw(t, "patterns"), "\n")
		below := strings.Join(rapid.SliceOfN(pattern, 0, 3).Draw(t, "patterns of a"), "\n")
		for name, text := range map[string]string{".gitignore": top, "a/.gitignore": below} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ignored := map[string]bool{}
		for p := range strings.SplitSeq(run(strings.Join(paths, "\x00"), "check-ignore", "--no-index", "-z", "--stdin"), "\x00") {
			ignored[p] = true
		}
		first := ignore.Parse(nil, "", top)
		second := ignore.Parse(first, "a", below)
		for _, p := range paths {
			parts, got := strings.Split(p, "/"), false
			for i := range parts {
				l := first
				if i > 0 && parts[0] == "a" {
					l = second
				}
				got = got || l.Excludes(parts[:i+1], folders[p] || i < len(parts)-1)
			}
			if got != ignored[p] {
				t.Fatalf("%q and %q in a: %s is excluded: %v, git: %v", top, below, p, got, ignored[p])
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("*.o\n!x\n/a/**/b\n[[:alpha:]]\n[", "a/b/c")
	f.Fuzz(func(t *testing.T, text, path string) {
		l := ignore.Parse(ignore.Parse(nil, "", text), "a", text)
		l.Excludes(strings.Split(path, "/"), true)
	})
}
