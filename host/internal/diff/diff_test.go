package diff_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/diff"
)

func file(text string) diff.Version { return diff.Version{Mode: diff.Regular, Data: text} }

var none = strings.Repeat("0", 40)

// The blob ids are git's: `printf TEXT | git hash-object --stdin`.
const (
	idX      = "587be6b4c3f93f93c489c0111bba5596147a26cb" // x\n
	idBigX   = "62d8fe9f6db631bd3a19140699101c9e281c9f9d" // X\n
	idFooBar = "3bd1f0e29744a1f32b08d5650e62e2e62afb177c" // foo\nbar\n
	idCRLF   = "c30dea8a3641ea99b125d04d599d843712292759" // a\r\nb\r\n
	idEmpty  = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		file diff.File
		want []string // lines
	}{
		{"added", diff.File{Name: "a.txt", After: file("foo\nbar\n")}, []string{
			"diff --git a/a.txt b/a.txt", "new file mode 100644", "index " + none + ".." + idFooBar, "--- /dev/null", "+++ b/a.txt",
			"@@ -0,0 +1,2 @@", "+foo", "+bar",
		}},
		{"deleted", diff.File{Name: "b.txt", Before: file("x\n")}, []string{
			"diff --git a/b.txt b/b.txt", "deleted file mode 100644", "index " + idX + ".." + none, "--- a/b.txt", "+++ /dev/null",
			"@@ -1 +0,0 @@", "-x",
		}},
		{"moved and changed", diff.File{Name: "dst.txt", From: "src.txt", Before: file("x\n"), After: file("X\n")}, []string{
			"diff --git a/src.txt b/dst.txt", "index " + idX + ".." + idBigX, "--- a/src.txt", "+++ b/dst.txt", "@@ -1 +1 @@", "-x", "+X",
		}},
		{"moved", diff.File{Name: "dst.txt", From: "src.txt", Before: file("x\n"), After: file("x\n")}, []string{
			"diff --git a/src.txt b/dst.txt", "similarity index 100%", "rename from src.txt", "rename to dst.txt",
		}},
		{"added, empty", diff.File{Name: "e", After: file("")}, []string{
			"diff --git a/e b/e", "new file mode 100644", "index " + none + ".." + idEmpty,
		}},
		{"the mode alone", diff.File{Name: "s", Before: file("x\n"), After: diff.Version{Mode: diff.Executable, Data: "x\n"}}, []string{
			"diff --git a/s b/s", "old mode 100644", "new mode 100755",
		}},
		{"no last newline", diff.File{Name: "n", Before: file("x"), After: file("x\n")}, []string{
			"diff --git a/n b/n", "index c1b0730e0133447badcfd47fd144e254807b06e1.." + idX, "--- a/n", "+++ b/n", "@@ -1 +1 @@", "-x",
			`\ No newline at end of file`, "+x",
		}},
		{"carriage returns", diff.File{Name: "c", Before: file("a\r\nb\r\n"), After: file("a\r\nB\r\n")}, []string{
			"diff --git a/c b/c", "index " + idCRLF + "..57213eb83ef3f1e415377068174df7163bde6a27", "--- a/c", "+++ b/c", "@@ -1,2 +1,2 @@", " a\r", "-b\r", "+B\r",
		}},
		{"names with spaces and quotes", diff.File{Name: `a "b"`, Before: file("x\n"), After: file("X\n")}, []string{
			`diff --git "a/a \"b\"" "b/a \"b\""`, "index " + idX + ".." + idBigX, `--- "a/a \"b\""`, `+++ "b/a \"b\""`, "@@ -1 +1 @@", "-x", "+X",
		}},
		{"names with spaces", diff.File{Name: "a b", Before: file("x\n"), After: file("X\n")}, []string{
			"diff --git a/a b b/a b", "index " + idX + ".." + idBigX, "--- a/a b\t", "+++ b/a b\t", "@@ -1 +1 @@", "-x", "+X",
		}},
		{"content that is not at hand", diff.File{Name: "big", Before: file("x\n"), After: diff.Version{Mode: diff.Regular, Unknown: true}}, []string{
			"diff --git a/big b/big", "Binary files a/big and b/big differ",
		}},
		{"unchanged", diff.File{Name: "same", Before: file("x\n"), After: file("x\n")}, nil},
		{"never there", diff.File{Name: "none"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Split(strings.TrimSuffix(diff.Of(tc.file).Diff, "\n"), "\n")
			if tc.want == nil {
				tc.want = []string{""}
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			for i, w := range tc.want {
				if got[i] != w {
					t.Errorf("line %d is %q, want %q", i+1, got[i], w)
				}
			}
		})
	}
}

// Three lines stand around a change; changes that share them are one hunk.
func TestContext(t *testing.T) {
	t.Parallel()
	lines := func(n int, change ...int) string {
		var b strings.Builder
		for i := 1; i <= n; i++ {
			b.WriteString("line")
			for _, c := range change {
				if c == i {
					b.WriteString(" changed")
				}
			}
			b.WriteString(strings.Repeat("'", i) + "\n")
		}
		return b.String()
	}
	for _, tc := range []struct {
		change []int
		want   []string
	}{
		{[]int{10}, []string{"@@ -7,7 +7,7 @@"}},
		{[]int{1}, []string{"@@ -1,4 +1,4 @@"}},
		{[]int{20}, []string{"@@ -17,4 +17,4 @@"}},
		{[]int{5, 12}, []string{"@@ -2,14 +2,14 @@"}},
		{[]int{5, 13}, []string{"@@ -2,7 +2,7 @@", "@@ -10,7 +10,7 @@"}},
	} {
		var got []string
		for l := range strings.Lines(diff.Of(diff.File{Name: "f", Before: file(lines(20)), After: file(lines(20, tc.change...))}).Diff) {
			if strings.HasPrefix(l, "@@") {
				got = append(got, strings.TrimSpace(l))
			}
		}
		if strings.Join(got, " ") != strings.Join(tc.want, " ") {
			t.Errorf("changes in %v: hunks %q, want %q", tc.change, got, tc.want)
		}
	}
}

// write returns one diff of all files, sorted by name.
func write(files []diff.File) string {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b diff.File) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, f := range files {
		b.WriteString(diff.Of(f).Diff)
	}
	return b.String()
}

func TestOrderAndCounts(t *testing.T) {
	t.Parallel()
	out := write([]diff.File{
		{Name: "z", After: file("1\n")}, {Name: "b/x", After: file("1\n")}, {Name: "b.txt", From: "q", Before: file("1\n"), After: file("2\n")},
	})
	var order []string
	for l := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(l, "+++ b/"); ok {
			order = append(order, strings.TrimSpace(name))
		}
	}
	if got := strings.Join(order, " "); got != "b.txt b/x z" {
		t.Errorf("order is %s", got)
	}
	got := diff.Of(diff.File{Name: "f", Before: file("a\nb\nc\n"), After: file("a\nB\nB2\n")})
	if got.Added != 2 || got.Removed != 2 {
		t.Errorf("%d added, %d removed, want 2 and 2", got.Added, got.Removed)
	}
}

// Many small changes of a long file stay small.
func TestScatteredChanges(t *testing.T) {
	t.Parallel()
	for _, n := range []int{20, 60, 200, 1000} {
		var before, after strings.Builder
		changed := 0
		for i := range 5000 {
			fmt.Fprintf(&before, "line %d\n", i)
			if i%(5000/n) == 3 {
				changed++
				fmt.Fprintf(&after, "changed %d\n", i)
			} else {
				fmt.Fprintf(&after, "line %d\n", i)
			}
		}
		if d := diff.Of(diff.File{Name: "f", Before: file(before.String()), After: file(after.String())}); d.Added != changed || d.Removed != changed {
			t.Errorf("%d changed lines: %d added, %d removed", changed, d.Added, d.Removed)
		}
	}
}

// Beyond the bounds nothing is compared: all that differs goes, and all that is new comes. What is the same at both ends stays.
func TestHugeFiles(t *testing.T) {
	t.Parallel()
	var before, after strings.Builder
	for i := range 120_000 {
		before.WriteString("old line\n")
		if i%2 == 0 {
			after.WriteString("old line\n")
		}
		after.WriteString("new line\n")
	}
	got := diff.Of(diff.File{Name: "f", Before: file("head\n" + before.String() + "tail\n"), After: file("head\n" + after.String() + "tail\n")})
	if got.Removed < 119_000 || got.Added < 179_000 || strings.Count(got.Diff, "\n@@ ") != 1 {
		t.Errorf("%d added, %d removed in %d hunks, want one that takes all", got.Added, got.Removed, strings.Count(got.Diff, "\n@@ "))
	}
	if !strings.Contains(got.Diff, "\n head\n") || !strings.Contains(got.Diff, "\n tail\n") {
		t.Error("the lines at both ends are not shown as unchanged")
	}
}

// The worst of what is still compared.
func BenchmarkWorst(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var before, after strings.Builder
	for range 50_000 {
		fmt.Fprintf(&before, "%d\n", r.IntN(200))
		fmt.Fprintf(&after, "%d\n", r.IntN(200))
	}
	f := diff.File{Name: "f", Before: file(before.String()), After: file(after.String())}
	for b.Loop() {
		diff.Of(f)
	}
}

// A few lines of a file of 1,000.
func BenchmarkUsual(b *testing.B) {
	var before strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&before, "line %d of a file of the usual length\n", i)
	}
	after := strings.NewReplacer("line 10 ", "line ten ", "line 500 ", "line x\nline y ", "line 900 ", "").Replace(before.String())
	f := diff.File{Name: "f", Before: file(before.String()), After: file(after)}
	for b.Loop() {
		diff.Of(f)
	}
}
