package patch

import (
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	const there = "old_text occurs more than once in {dir}/f, at lines "
	const more = ": include more of the surrounding lines, or set replace_all"
	const again = "old_text was not found in {dir}/f. Read the file again: the text must match exactly, including white space"
	for _, tt := range []struct {
		name, file string
		edit       Edit
		want, err  string
	}{
		{"one place", "a⏎b⏎c⏎", Edit{Old: "b", New: "B"}, "a⏎B⏎c⏎", ""},
		{"several lines", "a⏎b⏎c⏎d⏎", Edit{Old: "b⏎c⏎", New: "x⏎"}, "a⏎x⏎d⏎", ""},
		{"within a line", "let x = 1;⏎", Edit{Old: "x = 1", New: "y = 2"}, "let y = 2;⏎", ""},
		{"away with it", "a⏎b⏎", Edit{Old: "b⏎", New: ""}, "a⏎", ""},
		{"all of the file", "a", Edit{Old: "a", New: "b"}, "b", ""},
		{"white space counts", "  a⏎", Edit{Old: " a", New: "a"}, " a⏎", ""},
		{"no expansion", "a$1⏎", Edit{Old: "a$1", New: "$0\\n"}, "$0\\n⏎", ""},
		{"everywhere", "a b a⏎a⏎", Edit{Old: "a", New: "aa", All: true}, "aa b aa⏎aa⏎", ""},
		{"twice", "a⏎b⏎a⏎", Edit{Old: "a", New: "x"}, "", there + "1, 3" + more},
		{"often", strings.Repeat("a⏎", 9), Edit{Old: "a", New: "x"}, "", there + "1, 2, 3, 4, 5, …" + more},
		{"over itself", "aaa⏎", Edit{Old: "aa", New: "x"}, "", there + "1, 1" + more},
		{"nowhere", "a⏎", Edit{Old: "b", New: "c"}, "", again},
		{"nowhere, everywhere", "a⏎", Edit{Old: "b", New: "c", All: true}, "", again},
		{"other white space", "x⏎\tif a {⏎\t\tb⏎", Edit{Old: "if a {⏎  b", New: "c"}, "",
			"old_text was not found in {dir}/f. The lines from 2 on are similar, but differ in white space or punctuation"},
		{"the same", "a⏎", Edit{Old: "a", New: "a"}, "", "old_text and new_text are the same"},
		{"nothing to replace", "a⏎", Edit{New: "b"}, "", "{dir}/f exists and is not empty: old_text must contain the text to replace"},
		{"an empty file", "", Edit{New: "b⏎"}, "b⏎", ""},
		{"crlf", "a\r⏎b\r⏎c\r⏎", Edit{Old: "a⏎b", New: "x⏎y⏎z"}, "x\r⏎y\r⏎z\r⏎c\r⏎", ""},
		{"crlf, one line", "a\r⏎b\r⏎", Edit{Old: "b", New: "x⏎y"}, "a\r⏎x\r⏎y\r⏎", ""},
		{"byte order mark", "\uFEFFa⏎", Edit{Old: "a", New: "b"}, "\uFEFFb⏎", ""},
		{"latin-1", "caf\xe9⏎b⏎", Edit{Old: "b", New: "B"}, "caf\xe9⏎B⏎", ""},
		{"latin-1 and a character that needs an encoding", "caf\xe9⏎b⏎", Edit{Old: "b", New: "é"}, "",
			"Failed to read file to update {dir}/f: invalid utf-8 sequence of 1 bytes from index 3"},
		{"utf-16", "\xff\xfea\x00", Edit{Old: "a", New: "b"}, "", "Failed to read file to update {dir}/f: invalid utf-8 sequence of 1 bytes from index 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			putFiles(t, dir, map[string]string{"f": lf(tt.file)})
			tt.edit.Path, tt.edit.Old, tt.edit.New = "f", lf(tt.edit.Old), lf(tt.edit.New)
			plan, err := VerifyEdit(dir, tt.edit)
			if err != nil {
				if got := strings.ReplaceAll(err.Error(), dir, "{dir}"); got != tt.err {
					t.Errorf("error = %q, want %q", got, tt.err)
				}
				return
			}
			if o := plan.Slim().Apply(); o.Failure != "" {
				t.Fatal(o.Failure)
			}
			if got := tree(t, dir)["f"]; got != lf(tt.want) || tt.err != "" {
				t.Errorf("file = %q, want %q, error %q", got, lf(tt.want), tt.err)
			}
		})
	}
}

func TestEditOfOtherThanFiles(t *testing.T) {
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{"d/": ""})
	for path, want := range map[string]string{
		"d": "Failed to read file to update {dir}/d: path `{dir}/d` is not a file", "none": "Failed to read file to update {dir}/none: No such file or directory (os error 2)",
		"": "the path is empty",
	} {
		_, err := VerifyEdit(dir, Edit{Path: path, Old: "a", New: "b"})
		if err == nil || strings.ReplaceAll(err.Error(), dir, "{dir}") != want {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	plan, err := VerifyEdit(dir, Edit{Path: "new/er/f", New: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if o := plan.Apply(); o.Failure != "" || tree(t, dir)["new/er/f"] != "x" || plan.Changes[0].Kind != KindAdd {
		t.Errorf("outcome %+v, files %v", o, tree(t, dir))
	}
}

// What is not replaced stays, byte for byte.
func FuzzEdit(f *testing.F) {
	f.Add("a\nb\n", "b", "c", false)
	f.Add("a\r\nb\r\n", "a\nb", "x\ny", true)
	f.Add("caf\xe9", "c", "\xff", false)
	f.Fuzz(func(t *testing.T, content, before, after string, all bool) {
		if before == "" {
			return
		}
		got, err := replace("f", content, Edit{Old: before, New: after, All: all})
		if err != nil || all || splitText(content).eol == "\r\n" {
			return
		}
		head, tail, ok := strings.Cut(content, before)
		if !ok || got != head+after+tail {
			t.Errorf("replace(%q, %q, %q) = %q", content, before, after, got)
		}
	})
}
