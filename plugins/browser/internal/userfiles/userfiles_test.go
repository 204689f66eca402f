//go:build unix

package userfiles

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// served answers a request in this process.
func served(t *testing.T, mode string, q request, content string) (answer, string) {
	t.Helper()
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if !Wanted([]string{"x", mode}) || Main([]string{"x", mode}, io.MultiReader(bytes.NewReader(append(b, '\n')), strings.NewReader(content)), &out, &errs) != 0 {
		t.Fatalf("%s failed: %s", mode, errs.String())
	}
	o := &output{content: &bytes.Buffer{}}
	if _, err := io.Copy(o, iotestOneByte{&out}); err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(o.line, &a); err != nil {
		t.Fatalf("%q: %v", o.line, err)
	}
	return a, o.content.(*bytes.Buffer).String()
}

// iotestOneByte is a reader that returns two bytes at a time.
type iotestOneByte struct{ r io.Reader }

func (r iotestOneByte) Read(p []byte) (int, error) { return r.r.Read(p[:min(2, len(p))]) }

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file is written once, in a folder that is made, and never over another.
func TestSave(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, q := range []request{{Base: base, Dir: "a/b", Name: "x.txt"}, {Dir: filepath.Join(base, "c"), Name: "x.txt"}} {
		if a, _ := served(t, modeFree, q, ""); a.Name != "x.txt" {
			t.Errorf("%+v", a)
		}
		if a, _ := served(t, modeSave, q, "one"); a.Name != "x.txt" || a.Size != 3 {
			t.Errorf("%+v", a)
		}
		if a, _ := served(t, modeSave, q, "two"); !a.Taken {
			t.Errorf("%+v", a)
		}
		if a, _ := served(t, modeFree, q, ""); a.Name != "x (1).txt" {
			t.Errorf("%+v", a)
		}
		if b, err := os.ReadFile(filepath.Join(base, strings.TrimPrefix(q.Dir, base), "x.txt")); string(b) != "one" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// No link leads elsewhere: neither the folder, nor what leads to it, nor the file.
func TestSaveBehindALink(t *testing.T) {
	t.Parallel()
	base, out := t.TempDir(), t.TempDir()
	for link, to := range map[string]string{"up": out, "in/up": out, "rel": "../" + filepath.Base(out)} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(base, link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []request{
		{Base: base, Dir: "up", Name: "x"}, {Base: base, Dir: "in/up", Name: "x"}, {Base: base, Dir: "in/up/more", Name: "x"}, {Base: base, Dir: "rel", Name: "x"},
		{Base: base, Dir: "../" + filepath.Base(out), Name: "x"}, {Base: base, Dir: ".", Name: "../" + filepath.Base(out) + "/x"}, {Dir: filepath.Join(base, "up"), Name: "x"},
	} {
		if a, _ := served(t, modeSave, q, "evil"); a.Refusal == "" {
			t.Errorf("%+v: %+v", q, a)
		}
	}
	if err := os.Symlink(filepath.Join(out, "new"), filepath.Join(base, "file")); err != nil {
		t.Fatal(err)
	}
	if a, _ := served(t, modeSave, request{Base: base, Dir: ".", Name: "file"}, "evil"); !a.Taken {
		t.Errorf("%+v", a)
	}
	if left, err := os.ReadDir(out); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// What is read is a plain file at the very path.
func TestRead(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, filepath.Join(dir, "f"), "two\nlines")
	if a, got := served(t, modeRead, request{Path: file}, ""); got != "two\nlines" || a.Size != 9 {
		t.Errorf("%+v, %q", a, got)
	}
	link, pipe, in := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "in")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, in); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		link: "leads to " + file, filepath.Join(in, "f"): "leads to " + file, pipe: "not a file", dir: "not a file", filepath.Join(dir, "none"): "no such file",
		write(t, filepath.Join(dir, "empty"), ""): "it is empty", "/dev/zero": "not a file",
	} {
		if a, got := served(t, modeRead, request{Path: path}, ""); !strings.Contains(a.Refusal, want) || got != "" {
			t.Errorf("%s: %+v, %q", path, a, got)
		}
	}
}

// onePage is a PDF file with one page.
func onePage(text string) string {
	var b strings.Builder
	var at []int
	object := func(s string) {
		at = append(at, b.Len())
		b.WriteString(s)
	}
	stream := "BT /F1 12 Tf 72 720 Td (" + text + ") Tj ET"
	b.WriteString("%PDF-1.4\n")
	object("1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n")
	object("2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n")
	object("3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>\nendobj\n")
	object("4 0 obj\n<< /Length " + itoa(len(stream)) + " >>\nstream\n" + stream + "\nendstream\nendobj\n")
	object("5 0 obj\n<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>\nendobj\n")
	xref := b.Len()
	b.WriteString("xref\n0 6\n0000000000 65535 f \n")
	for _, n := range at {
		s := itoa(n)
		b.WriteString(strings.Repeat("0", 10-len(s)) + s + " 00000 n \n")
	}
	b.WriteString("trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n" + itoa(xref) + "\n%%EOF\n")
	return b.String()
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestPDFText(t *testing.T) {
	t.Parallel()
	if a, _ := served(t, modePDF, request{}, onePage("Invoice 42")); a.Text != "--- page 1 ---\nInvoice 42\n" {
		t.Errorf("%+v", a)
	}
	if a, _ := served(t, modePDF, request{}, "%PDF-1.4 nothing"); !strings.Contains(a.Refusal, "not a valid PDF file") {
		t.Errorf("%+v", a)
	}
}
