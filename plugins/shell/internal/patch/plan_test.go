package patch

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// putFiles puts files below dir; a name that ends in a slash is a folder.
func putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree returns all files below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestWholePatch(t *testing.T) {
	const success = "Exit code: 0⏎Wall time: 0 seconds⏎Output:⏎Success. Updated the following files:⏎"
	const headers = " is not a valid hunk header. Valid hunk headers: '*** Add File: {path}', '*** Delete File: {path}', '*** Update File: {path}'"
	type files = map[string]string
	tests := []struct {
		name   string
		before files
		patch  string // {dir} is the folder
		want   string
		after  files // nil: as before
	}{
		{name: "all three kinds", before: files{"modify.txt": "a⏎", "delete.txt": "x⏎"},
			patch: "*** Begin Patch⏎*** Delete File: delete.txt⏎*** Update File: modify.txt⏎@@⏎-a⏎+b⏎*** Add File: nested/new.txt⏎+n⏎*** End Patch",
			want:  success + "A nested/new.txt⏎M modify.txt⏎D delete.txt⏎",
			after: files{"modify.txt": "b⏎", "nested/new.txt": "n⏎"}},
		{name: "nothing inside", patch: "*** Begin Patch⏎*** End Patch", want: "patch rejected: empty patch"},
		{name: "no patch", patch: "foo", want: failed + "invalid patch: The first line of the patch must be '*** Begin Patch'"},
		{name: "empty text", patch: "", want: failed + "invalid patch: The first line of the patch must be '*** Begin Patch'"},
		{name: "no end", patch: "*** Begin Patch⏎*** Add File: a⏎+x", want: failed + "invalid patch: The last line of the patch must be '*** End Patch'"},
		{name: "only the beginning", patch: "*** Begin Patch", want: failed + "invalid patch: The last line of the patch must be '*** End Patch'"},
		{name: "text after the end", patch: "*** Begin Patch⏎*** Add File: a⏎+x⏎*** End Patch⏎foo",
			want: failed + "invalid patch: The last line of the patch must be '*** End Patch'"},
		{name: "text between two ends", patch: "*** Begin Patch⏎*** Add File: a⏎+x⏎*** End Patch⏎foo⏎*** End Patch",
			want: failed + "invalid patch: The last line of the patch must be '*** End Patch'"},
		{name: "padded markers", before: files{"f": "a⏎"},
			patch: " *** Begin Patch⏎  *** Update File: f⏎@@⏎-a⏎+b⏎*** End Patch ", want: success + "M f⏎", after: files{"f": "b⏎"}},
		{name: "indented end marker", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎@@⏎-a⏎+b⏎  *** End Patch", want: success + "M f⏎", after: files{"f": "b⏎"}},
		{name: "heredoc around it", before: files{"f": "a⏎"},
			patch: "<<'EOF'⏎*** Begin Patch⏎*** Update File: f⏎@@⏎-a⏎+b⏎*** End Patch⏎EOF", want: success + "M f⏎", after: files{"f": "b⏎"}},
		{name: "heredoc around garbage", patch: "<<EOF⏎garbage⏎*** End Patch⏎EOF",
			want: failed + "invalid patch: The first line of the patch must be '*** Begin Patch'"},
		// Replaces the helpless first-line error: a patch wrapped in JSON is a known weakness.
		{name: "JSON around it", before: files{"f": "a⏎"},
			patch: `{"input":"*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"}`, want: success + "M f⏎", after: files{"f": "b⏎"}},
		{name: "JSON with the other name", before: files{"f": "a⏎"},
			patch: `{"patch":"*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch\n"}`, want: success + "M f⏎", after: files{"f": "b⏎"}},
		{name: "unknown header", patch: "*** Begin Patch⏎*** Frobnicate File: foo⏎*** End Patch",
			want: failed + "invalid hunk at line 2, '*** Frobnicate File: foo'" + headers},
		{name: "text after a delete", before: files{"f": "a⏎"}, patch: "*** Begin Patch⏎*** Delete File: f⏎-a⏎*** End Patch",
			want: failed + "invalid hunk at line 3, '-a'" + headers},
		{name: "text in an add", patch: "*** Begin Patch⏎*** Add File: f⏎+a⏎b⏎*** End Patch", want: failed + "invalid hunk at line 4, 'b'" + headers},
		{name: "update without a chunk", before: files{"f": "a⏎"}, patch: "*** Begin Patch⏎*** Update File: f⏎*** End Patch",
			want: failed + "invalid hunk at line 2, Update file hunk for path 'f' is empty"},
		{name: "update without a chunk before another", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎*** Delete File: f⏎*** End Patch",
			want:  failed + "invalid hunk at line 2, Update file hunk for path 'f' is empty"},
		{name: "move without a chunk", before: files{"f": "a⏎"}, patch: "*** Begin Patch⏎*** Update File: f⏎*** Move to: g⏎*** End Patch",
			want: failed + "invalid hunk at line 2, Update file hunk for path 'f' is empty"},
		{name: "empty chunk", before: files{"f": "a⏎"}, patch: "*** Begin Patch⏎*** Update File: f⏎@@⏎*** End Patch",
			want: failed + "invalid hunk at line 4, Update hunk does not contain any lines"},
		{name: "empty chunk at the end of the file", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎@@⏎*** End of File⏎*** End Patch",
			want:  failed + "invalid hunk at line 4, Update hunk does not contain any lines"},
		{name: "empty chunk before a header", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎@@⏎*** Delete File: f⏎*** End Patch",
			want:  failed + "invalid hunk at line 4, " + unexpected + "*** Delete File: f" + everyLine},
		{name: "one file twice", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎@@⏎-a⏎+b⏎*** Update File: ./f⏎@@⏎-a⏎+c⏎*** End Patch",
			want:  failed + "invalid patch: multiple operations target {dir}/f"},
		{name: "moved to where another goes", before: files{"f": "a⏎", "g": "g⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎*** Move to: g⏎@@⏎-a⏎+b⏎*** Update File: g⏎@@⏎-g⏎+h⏎*** End Patch",
			want:  failed + "invalid patch: multiple operations target {dir}/g"},
		{name: "moved to where one was deleted", before: files{"f": "a⏎", "g": "g⏎"},
			patch: "*** Begin Patch⏎*** Delete File: g⏎*** Update File: f⏎*** Move to: g⏎@@⏎-a⏎+b⏎*** End Patch",
			want:  success + "M g⏎D g⏎", after: files{"g": "b⏎"}},
		{name: "moved onto itself", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎*** Move to: ./f⏎@@⏎-a⏎+b⏎*** End Patch", want: success + "M f⏎", after: files{"f": "b⏎"}},
		{name: "all or nothing", patch: "*** Begin Patch⏎*** Add File: a⏎+x⏎*** Update File: missing⏎@@⏎-a⏎+b⏎*** End Patch",
			want: failed + "Failed to read file to update {dir}/missing: No such file or directory (os error 2)"},
		{name: "empty file", patch: "*** Begin Patch⏎*** Add File: a⏎*** End Patch", want: success + "A a⏎", after: files{"a": ""}},
		{name: "add over a binary", before: files{"a": "\x00\xff"}, patch: "*** Begin Patch⏎*** Add File: a⏎+x⏎*** End Patch",
			want: success + "A a⏎", after: files{"a": "x⏎"}},
		{name: "move onto a file", before: files{"f": "a⏎", "g": "long content⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎*** Move to: g⏎@@⏎-a⏎+b⏎*** End Patch", want: success + "M g⏎", after: files{"g": "b⏎"}},
		{name: "move with context only", before: files{"f": "a⏎"},
			patch: "*** Begin Patch⏎*** Update File: f⏎*** Move to: d/g⏎@@⏎ a⏎*** End Patch", want: success + "M d/g⏎", after: files{"d/g": "a⏎"}},
		{name: "delete what is not there", patch: "*** Begin Patch⏎*** Delete File: missing.txt⏎*** End Patch",
			want: failed + "Failed to read {dir}/missing.txt: No such file or directory (os error 2)"},
		{name: "delete a folder", before: files{"dir/x": "1"}, patch: "*** Begin Patch⏎*** Delete File: dir⏎*** End Patch",
			want: failed + "Failed to read {dir}/dir: path `{dir}/dir` is not a file"},
		{name: "environment", patch: "*** Begin Patch⏎*** Environment ID: e⏎*** Add File: a⏎+x⏎*** End Patch",
			want: "apply_patch environment selection is unavailable for this turn"},
		{name: "empty environment", patch: "*** Begin Patch⏎*** Environment ID: ⏎*** Add File: a⏎+x⏎*** End Patch",
			want: failed + "invalid patch: apply_patch environment_id cannot be empty"},
		{name: "environment twice", patch: "*** Begin Patch⏎*** Environment ID: e⏎*** Environment ID: e⏎*** End Patch",
			want: failed + "invalid patch: apply_patch environment_id specified more than once"},
		{name: "absolute path", patch: "*** Begin Patch⏎*** Add File: {dir}/a⏎+x⏎*** End Patch", want: success + "A {dir}/a⏎", after: files{"a": "x⏎"}},
		{name: "a folder where a file should be", before: files{"a/x": "1"}, patch: "*** Begin Patch⏎*** Add File: b⏎+x⏎*** Add File: a⏎+x⏎*** End Patch",
			want:  "Exit code: 1⏎Wall time: 0 seconds⏎Output:⏎Failed to write file {dir}/a: Is a directory (os error 21)⏎The changes before it were made:⏎A b⏎",
			after: files{"a/x": "1", "b": "x⏎"}},
		{name: "a file where a folder should be", before: files{"a": "1"}, patch: "*** Begin Patch⏎*** Add File: a/b/c⏎+x⏎*** End Patch",
			want: "Exit code: 1⏎Wall time: 0 seconds⏎Output:⏎Failed to write file {dir}/a/b/c: Not a directory (os error 20)⏎"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			before := files{}
			for name, content := range tt.before {
				before[name] = lf(content)
			}
			putFiles(t, dir, before)
			var got string
			if plan, err := plan(dir, Unwrap(strings.ReplaceAll(lf(tt.patch), "{dir}", dir))); err != nil {
				got = Explain(err)
			} else {
				got = plan.Summary(plan.Slim().Apply(), 0.04)
			}
			if want := strings.ReplaceAll(lf(tt.want), "{dir}", dir); got != want {
				t.Errorf("result = %q, want %q", got, want)
			}
			want := files{}
			for name, content := range tt.after {
				want[name] = lf(content)
			}
			if tt.after == nil {
				want = before
			}
			got2 := tree(t, dir)
			for name, content := range want {
				if c, ok := got2[name]; !ok || c != content {
					t.Errorf("%s = %q (there: %v), want %q", name, c, ok, content)
				}
			}
			for name := range got2 {
				if _, ok := want[name]; !ok {
					t.Errorf("%s is there, it should not", name)
				}
			}
		})
	}
}

func TestParentFolderAsSpelled(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"sub/": ""})
	plan, err := plan(filepath.Join(dir, "sub"), "*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Summary(plan.Apply(), 0); !strings.HasSuffix(got, "\nA ../x\n") {
		t.Errorf("summary = %q", got)
	}
	if got := tree(t, dir)["x"]; got != "x\n" {
		t.Errorf("x = %q", got)
	}
}

func TestLinksToOneFileAreOneTarget(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"f": "a\n"})
	if err := os.Symlink("f", filepath.Join(dir, "l")); err != nil {
		t.Skip("no symlinks here")
	}
	_, err := plan(dir, "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** Update File: l\n@@\n-a\n+c\n*** End Patch")
	if err == nil || !strings.Contains(err.Error(), "multiple operations target") {
		t.Errorf("error = %v, want multiple operations", err)
	}
	if _, err := plan(dir, "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** Delete File: l\n*** End Patch"); err != nil {
		t.Errorf("deleting a link beside changing its target: %v", err)
	}
}

func TestUpdateKeepsLinksAndModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes here")
	}
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"f": "a long line\n"})
	if err := os.Chmod(filepath.Join(dir, "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	p, err := plan(dir, "*** Begin Patch\n*** Update File: f\n@@\n-a long line\n+b\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	if o := p.Apply(); o.Failure != "" {
		t.Fatal(o.Failure)
	}
	if got := tree(t, dir)["hard"]; got != "b\n" {
		t.Errorf("hard link = %q, want the new content", got)
	}
	p, err = plan(dir, "*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n-b\n+c\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	if o := p.Apply(); o.Failure != "" {
		t.Fatal(o.Failure)
	}
	info, err := os.Stat(filepath.Join(dir, "g"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o755 {
		t.Errorf("mode after the move = %v, want 0755", info.Mode())
	}
}

func TestApplyRefusesWhatChangedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"f": "a\n", "g": "x\n"})
	p, err := plan(dir, "*** Begin Patch\n*** Delete File: g\n*** Update File: f\n@@\n-a\n+b\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	putFiles(t, dir, map[string]string{"f": "other\n"})
	o := p.Apply()
	if !o.Stale || !strings.Contains(o.Failure, filepath.Join(dir, "f")+" has changed") {
		t.Errorf("outcome = %+v, want stale", o)
	}
	if got := tree(t, dir); got["g"] != "x\n" || got["f"] != "other\n" {
		t.Errorf("files = %v, want untouched", got)
	}
}

// A try that the sandbox stopped in the middle is made again under a wider grant.
func TestApplyAgain(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"d": "1\n", "u": "a\n", "m": "m\n", "over": "o\n"})
	p, err := plan(dir, "*** Begin Patch\n*** Add File: n\n+n\n*** Delete File: d\n*** Update File: u\n@@\n-a\n+b\n"+
		"*** Update File: m\n*** Move to: over\n@@\n-m\n+M\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if o := p.Apply(); o.Failure != "" || o.Done != 4 {
			t.Fatalf("outcome = %+v", o)
		}
	}
	want := map[string]string{"n": "n\n", "u": "b\n", "over": "M\n"}
	got := tree(t, dir)
	if len(got) != len(want) || got["n"] != want["n"] || got["u"] != want["u"] || got["over"] != want["over"] {
		t.Errorf("files = %v, want %v", got, want)
	}
}

func TestLargeFiles(t *testing.T) {
	dir := t.TempDir()
	large := strings.Repeat("0123456\n", maxFileBytes/8) + "more\n"
	putFiles(t, dir, map[string]string{"u": large, "d": large, "o": large})
	_, err := plan(dir, "*** Begin Patch\n*** Update File: u\n@@\n-more\n+less\n*** End Patch")
	if err == nil || !strings.HasSuffix(err.Error(), "/u: the file is larger than 16777216 bytes") {
		t.Errorf("update: %v", err)
	}
	p, err := plan(dir, "*** Begin Patch\n*** Delete File: d\n*** Add File: o\n+small\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	if p.Changes[0].Before.Whole() || p.Changes[0].Before.Size != int64(len(large)) {
		t.Error("the content of a large file was kept")
	}
	if o := p.Slim().Apply(); o.Failure != "" {
		t.Fatal(o.Failure)
	}
	if got := tree(t, dir); got["o"] != "small\n" || len(got) != 2 {
		t.Errorf("%d files, o = %q", len(got), got["o"])
	}
}

func TestDigestFollowsContent(t *testing.T) {
	dir := t.TempDir()
	digest := func(content, patch string) string {
		putFiles(t, dir, map[string]string{"f": content})
		p, err := plan(dir, patch)
		if err != nil {
			t.Fatal(err)
		}
		if p.Digest() != p.Slim().Digest() {
			t.Error("the slim plan has another digest")
		}
		return p.Digest()
	}
	const one = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"
	const two = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+c\n*** End Patch"
	d := digest("a\n", one)
	if again := digest("a\n", one); again != d {
		t.Errorf("digest of the same = %s, want %s", again, d)
	}
	if other := digest("a\nx\n", one); other == d {
		t.Error("other content before has the same digest")
	}
	if other := digest("a\n", two); other == d {
		t.Error("other content after has the same digest")
	}
	if len(d) > 128 {
		t.Errorf("digest has %d characters, the contract allows 128", len(d))
	}
}

func TestShortSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0", 0.04: "0", 0.05: "0.1", 0.12: "0.1", 2.04: "2", 61.26: "61.3"} {
		if got := shortSeconds(s); got != want {
			t.Errorf("shortSeconds(%v) = %q, want %q", s, got, want)
		}
	}
}

func TestUnwrapLeavesOtherTextAlone(t *testing.T) {
	for _, s := range []string{"", "{", "{}", `{"other":"x"}`, `{"input":5}`, "x {", " *** Begin Patch"} {
		if got := Unwrap(s); got != s {
			t.Errorf("Unwrap(%q) = %q", s, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"*** Begin Patch\n*** Add File: a\n+x\n*** End Patch",
		"<<'EOF'\n*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@ c\n a\n-b\n+c\n*** End of File\n*** End Patch\nEOF",
		"*** Begin Patch\n*** Environment ID: e\n*** Delete File: a\r\n*** End Patch\r\n",
		"*** Begin Patch\n*** Update File: f\n\n@@\n-a\n*** End Patch\n\n*** End Patch",
		`{"input":"*** Begin Patch\n*** End Patch"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(Unwrap(s))
		if err != nil {
			return
		}
		for i, h := range p.Hunks {
			if h.Kind == KindUnknown || h.Path == "" {
				t.Errorf("hunk %d has no kind or path: %+v", i, h)
			}
			if h.Kind == KindUpdate && len(h.Chunks) == 0 {
				t.Errorf("update hunk %d has no chunks", i)
			}
			for _, c := range h.Chunks {
				if len(c.Lines) == 0 {
					t.Errorf("hunk %d has an empty chunk", i)
				}
			}
		}
	})
}
