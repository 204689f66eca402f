package files_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
)

// The rows are those of the reference; docx and pdf are no types here, because a model writes text: save_as_pdf prints pages.
func TestManagedName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"my report.md": "my report.md", "../../x.md": "x.md", "a:b?.txt": "ab.txt", "noext": "", "x.png": "", ".md": "file.md", "ÄÖ.md": "file.md", "report--x.MD": "report-x.md",
		"a.b.c.json": "a.b.c.json", "报告.md": "报告.md", "  .txt": "file.txt", "": "", "x.": "", `C:\a\b.csv`: "b.csv", "..md": "file.md", "x.docx": "",
	} {
		got, err := files.ManagedName(in)
		if got != want || (err != nil) != (want == "") || err != nil && !strings.Contains(err.Error(), ".csv, .html, .json, .jsonl, .md, .txt, .xml") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestManaged(t *testing.T) {
	t.Parallel()
	m := files.NewManaged()
	for _, row := range []struct {
		do   func() (string, error)
		want string
	}{
		{func() (string, error) { return m.Write("x.md", "a", true) }, "File 'x.md' not found."},
		{func() (string, error) { return m.Write("x.md", "a b a", false) }, "Data written to file x.md successfully."},
		{func() (string, error) { return m.Write("x.md", "\nc", true) }, "Data appended to file x.md successfully."},
		{func() (string, error) { return m.Write("d/x:.md", "z", false) }, `Data written to file x.md successfully. ("d/x:.md" is no possible name)`},
		{func() (string, error) { return m.Write("x.md", "a b a\nc", false) }, "Data written to file x.md successfully."},
		{func() (string, error) { return m.Replace("x.md", "a", "o") }, `Successfully replaced all occurrences of "a" with "o" in file x.md`},
		{func() (string, error) { return m.Replace("x.md", "", "o") }, "Cannot replace empty string. Please provide a non-empty string to replace."},
		{func() (string, error) { return m.Replace("x.md", "zz", "o") }, `x.md does not contain "zz"`},
		{func() (string, error) { return m.Replace("y.md", "zz", "o") }, "File 'y.md' not found."},
		{func() (string, error) { return m.Read("x.md") }, "Read from file x.md.\n<content>\no b o\nc\n</content>"},
		{func() (string, error) { return m.Read("y.md") }, "File 'y.md' not found."},
		{func() (string, error) { return m.Write("t.csv", "a, \"b\nc\",d\n1,2", false) }, "Data written to file t.csv successfully."},
		{func() (string, error) { return m.Write("l.txt", strings.Repeat("line\n", 200), false) }, "Data written to file l.txt successfully."},
		{func() (string, error) { return m.Write("big.txt", strings.Repeat("x", 5<<20), false) }, "big.txt would be larger than 4 MB"},
		{func() (string, error) { return m.Write("e.txt", "", false) }, "Data written to file e.txt successfully."},
	} {
		got, err := row.do()
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
	d := m.Describe()
	for _, want := range []string{"x.md - 2 lines\n<content>\no b o\nc\n</content>", "l.txt - 200 lines", "... 120 more lines ...", "e.txt - [empty file]"} {
		if !strings.Contains(d, want) {
			t.Errorf("no %q in\n%s", want, d)
		}
	}
	if strings.Contains(d, "todo.md") || len(d) > 1500 {
		t.Errorf("%d bytes: %s", len(d), d)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := files.Restore(b); err != nil || !reflect.DeepEqual(again, m) {
		t.Errorf("%+v, %v", again, err)
	}
	for _, text := range []string{"x", `{"files":{"../x.md":""}}`, `{"files":{"x.exe":""}}`} {
		if again, err := files.Restore([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, again)
		}
	}
}

// Whatever a model writes: a name is one of a managed file, and stays as it is.
func FuzzManagedName(f *testing.F) {
	for _, s := range []string{"my report.md", "../x.md", "ÄÖ.md", "--.txt", ". -.md", "a.MD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := files.ManagedName(s)
		if err != nil {
			return
		}
		if again, err := files.ManagedName(n); err != nil || again != n {
			t.Errorf("%q: %q, then %q, %v", s, n, again, err)
		}
		if strings.ContainsAny(n, "/\\\x00") || strings.HasPrefix(n, ".") || len(n) > 200 {
			t.Errorf("%q: %q", s, n)
		}
	})
}
