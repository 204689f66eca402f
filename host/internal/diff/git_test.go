package diff_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/diff"
	"pgregory.net/rapid"
)

// tree is a folder of files by their names.
type tree map[string]diff.Version

func (tr tree) write(t testing.TB, dir string) {
	t.Helper()
	for name, v := range tr {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch v.Mode {
		case diff.Link:
			err = os.Symlink(v.Data, path)
		case diff.Executable:
			err = os.WriteFile(path, []byte(v.Data), 0o755)
		case diff.Regular:
			err = os.WriteFile(path, []byte(v.Data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t testing.TB, dir string) tree {
	t.Helper()
	out := tree{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[name] = diff.Version{Mode: diff.Link, Data: target}
			return err
		}
		b, err := os.ReadFile(path)
		v := diff.Version{Mode: diff.Regular, Data: string(b)}
		if info.Mode()&0o100 != 0 {
			v.Mode = diff.Executable
		}
		out[name] = v
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (tr tree) String() string {
	var names []string
	for n := range tr {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "%q %o %q\n", n, tr[n].Mode, tr[n].Data)
	}
	return b.String()
}

// files is what became of the one tree on the way to the other, with moves.
func files(before, after tree, moves map[string]string) []diff.File {
	var out []diff.File
	gone := map[string]bool{}
	for to, from := range moves {
		gone[from] = true
		out = append(out, diff.File{Name: to, From: from, Before: before[from], After: after[to]})
	}
	for name, v := range before {
		if !gone[name] {
			out = append(out, diff.File{Name: name, Before: v, After: after[name]})
		}
	}
	for name, v := range after {
		if _, was := before[name]; !was && moves[name] == "" {
			out = append(out, diff.File{Name: name, After: v})
		}
	}
	return out
}

// applies has the real git apply a diff forth and back.
func applies(t testing.TB, before, after tree, moves map[string]string) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git here")
	}
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	before.write(t, dir)
	patch := write(files(before, after, moves))
	if patch == "" && before.String() == after.String() {
		return
	}
	apply := func(args ...string) {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-c", "core.autocrlf=false", "apply", "--whitespace=nowarn"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		cmd.Stdin = strings.NewReader(patch)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("git apply %v: %v\n%s\npatch:\n%s", args, err, errs.String(), patch)
		}
	}
	apply("-")
	if got := readTree(t, dir); got.String() != after.String() {
		t.Fatalf("applied:\n%s\nwant:\n%s\npatch:\n%s", got, after, patch)
	}
	apply("-R", "-")
	if got := readTree(t, dir); got.String() != before.String() {
		t.Fatalf("taken back:\n%s\nwant:\n%s\npatch:\n%s", got, before, patch)
	}
}

func TestGitApplies(t *testing.T) {
	t.Parallel()
	exe := func(s string) diff.Version { return diff.Version{Mode: diff.Executable, Data: s} }
	link := func(s string) diff.Version { return diff.Version{Mode: diff.Link, Data: s} }
	binary := string([]byte{0, 1, 2, 255, 254, 10, 0})
	for _, tc := range []struct {
		name          string
		before, after tree
		moves         map[string]string
	}{
		{"text", tree{"a": file("1\n2\n3\n")}, tree{"a": file("1\nzwei\n3\n")}, nil},
		{"added and deleted", tree{"a": file("1\n")}, tree{"b/c": file("2\n")}, nil},
		{"added over binary content", tree{"a": file(binary)}, tree{"a": file("text\n")}, nil},
		{"binary content", tree{"a": file(binary), "b": file("x\n"), "c": file(binary)}, tree{"a": file(binary + binary), "b": file(binary)}, nil},
		{"a long binary file", tree{"a": file(strings.Repeat(binary, 9000))}, tree{"a": file(strings.Repeat("\x00ab", 30_000))}, nil},
		{"not UTF-8", tree{"a": file("caf\xe9\n")}, tree{"a": file("th\xe9\n")}, nil},
		{"empty", tree{"a": file(""), "b": file("x\n")}, tree{"b": file(""), "c": file("")}, nil},
		{"without a last newline", tree{"a": file("1\n2"), "b": file("1\n"), "c": file("x")}, tree{"a": file("1\n3"), "b": file("1"), "c": file("x\n")}, nil},
		{"carriage returns", tree{"a": file("1\r\n2\r\n"), "b": file("1\n\r\n")}, tree{"a": file("1\r\n3\r\n"), "b": file("1\n\n")}, nil},
		{"modes", tree{"a": file("x\n"), "b": exe("y\n")}, tree{"a": exe("x\n"), "b": file("z\n"), "c": exe("n\n")}, nil},
		{"links", tree{"a": link("b"), "c": link("d"), "e": file("was a file\n"), "f": link("was a link")},
			tree{"a": link("bb"), "e": link("x"), "f": file("f\n"), "g": link("new")}, nil},
		{"moved", tree{"a": file("1\n2\n"), "b": file("3\n")}, tree{"d/c": file("1\n2\n"), "b": file("3\n")}, map[string]string{"d/c": "a"}},
		{"moved and changed", tree{"a": file("1\n2\n")}, tree{"c": file("1\nx\n")}, map[string]string{"c": "a"}},
		{"moved with another mode", tree{"a": file("1\n2\n")}, tree{"c": exe("1\n2\n")}, map[string]string{"c": "a"}},
		{"moved, changed, another mode", tree{"a": file("1\n2\n")}, tree{"c": exe("1\n3\n")}, map[string]string{"c": "a"}},
		{"moved binary content", tree{"a": file(binary)}, tree{"c": file(binary + "x")}, map[string]string{"c": "a"}},
		{"names", tree{"a b": file("1\n"), "tab\there": file("1\n"), `q"uote\`: file("1\n"), "ümläut": file("1\n"), "-dash": file("1\n"), "line\nfeed": file("1\n"), "a b c": file("")},
			tree{"a b": file("2\n"), "tab\there": file("2\n"), `q"uote\`: file("2\n"), "ümläut": file("2\n"), "-dash": file("2\n"), "line\nfeed": file("2\n"), "x y": file("")}, nil},
		{"moved between names with spaces", tree{"a b": file("1\n"), "c d": file("2\n")}, tree{"e f": file("1\n"), "g h": file("3\n")},
			map[string]string{"e f": "a b", "g h": "c d"}},
		{"lines that look like the diff's own", tree{"a": file("-- a/x\n++ b/y\n@@ -1 +1 @@\n")}, tree{"a": file("-- a/y\n@@ -1 +1 @@\ndiff --git a/x b/x\n")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			applies(t, tc.before, tc.after, tc.moves)
		})
	}
}

// Whatever becomes of files, git gets from the one to the other with the diff, and back.
func TestGitAppliesAnything(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "d\r\n", "-- x\n", "++ y\n", "\\ z\n", "é\n", "a\x00\n", "\xff\n", "e"})
	text := rapid.Map(rapid.SliceOfN(line, 0, 30), func(l []string) string { return strings.Join(l, "") })
	version := rapid.Custom(func(rt *rapid.T) diff.Version {
		mode := rapid.SampledFrom([]diff.Mode{diff.Regular, diff.Regular, diff.Executable, diff.Link}).Draw(rt, "mode")
		if mode == diff.Link {
			return diff.Version{Mode: mode, Data: rapid.StringMatching(`[a-z/]{1,8}`).Draw(rt, "target")}
		}
		return diff.Version{Mode: mode, Data: text.Draw(rt, "text")}
	})
	name := rapid.SampledFrom([]string{"a", "b c", "d/e", "d/f", "ü", `g"`})
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.MapOfN(name, version, 0, 4).Draw(rt, "before")
		after := tree{}
		for n, v := range before {
			switch rapid.IntRange(0, 3).Draw(rt, "fate of "+n) {
			case 0: // gone
			case 1:
				after[n] = v
			case 2:
				edited := v
				if v.Mode != diff.Link {
					cut := rapid.IntRange(0, len(v.Data)).Draw(rt, "cut")
					edited.Data = v.Data[:cut] + text.Draw(rt, "edit") + v.Data[cut:]
				}
				after[n] = edited
			case 3:
				after[n] = version.Draw(rt, "new "+n)
			}
		}
		moves := map[string]string{}
		for n, v := range rapid.MapOfN(name, version, 0, 2).Draw(rt, "added") {
			if _, was := before[n]; was {
				continue
			}
			after[n] = v
			for from, old := range before {
				if _, stays := after[from]; !stays && moves[n] == "" && (old.Mode == diff.Link) == (v.Mode == diff.Link) && !used(moves, from) {
					moves[n] = from
				}
			}
		}
		if len(before) == 0 && len(after) == 0 {
			return
		}
		applies(t, before, after, moves)
	})
}

func used(moves map[string]string, from string) bool {
	for _, f := range moves {
		if f == from {
			return true
		}
	}
	return false
}

// apply reads the hunks of a diff of one text as git would.
func apply(t testing.TB, before, patch string) string {
	t.Helper()
	var out strings.Builder
	old := strings.SplitAfter(before, "\n")
	at, started := 0, false
	var last *string
	for l := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(l, "@@ "):
			var start, n int
			if _, err := fmt.Sscanf(l, "@@ -%d,%d", &start, &n); err != nil {
				n = 1
				if _, err := fmt.Sscanf(l, "@@ -%d", &start); err != nil {
					t.Fatalf("%q: %v", l, err)
				}
			}
			if n > 0 {
				start--
			}
			for ; at < start; at++ {
				out.WriteString(old[at])
			}
			started = true
		case !started:
		case l[0] == '\\':
			s := strings.TrimSuffix(out.String(), "\n")
			if last != nil {
				out.Reset()
				out.WriteString(s)
			}
		case l[0] == ' ', l[0] == '-':
			if strings.TrimSuffix(old[at], "\n") != strings.TrimSuffix(l[1:], "\n") {
				t.Fatalf("line %d is %q, the diff has %q", at+1, old[at], l[1:])
			}
			at++
			last = nil
			if l[0] == ' ' {
				out.WriteString(l[1:])
				last = &l
			}
		case l[0] == '+':
			out.WriteString(l[1:])
			last = &l
		}
	}
	for ; at < len(old); at++ {
		out.WriteString(old[at])
	}
	return out.String()
}

// FuzzLines: whatever the texts, the diff leads from the one to the other.
func FuzzLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc\n")
	f.Add("", "x")
	f.Add("x\n", "x")
	f.Add(strings.Repeat("a\nb\n", 200), strings.Repeat("b\na\nc\n", 150))
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "\x00") || before == after {
			return
		}
		before, after = strings.ToValidUTF8(before, "?"), strings.ToValidUTF8(after, "?")
		got := apply(t, before, diff.Of(diff.File{Name: "f", Before: file(before), After: file(after)}).Diff)
		if got != after {
			t.Errorf("%q with the diff to %q is %q", before, after, got)
		}
	})
}
