//go:build unix

package action_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files get into fields and onto pages, by the field itself or what stands for it, and the outcome says what the page made of them.
func TestFiles(t *testing.T) {
	x := newRig(t)
	dir := t.TempDir()
	x.Upload = func(_ context.Context, paths []string) ([]string, error) {
		var out []string
		for _, p := range paths {
			if p == "denied" {
				return nil, errors.New("denied can't be uploaded: permission denied")
			}
			out = append(out, filepath.Join(dir, p))
			if err := os.WriteFile(out[len(out)-1], []byte("content of "+p), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return out, nil
	}
	const content = "(await Promise.all([...document.querySelector('input').files].map(f => f.text()))).join()"
	drop := `<div id=d tabindex=0 style="width:200px;height:200px" ondragover="event.preventDefault()" ondrop="event.preventDefault(); got = [...event.dataTransfer.files]">Drop</div>`
	for _, row := range []struct{ name, html, actions, want, code, value string }{
		{"field", "<input type=file>", `{"upload_file":{"index":1,"paths":["a.txt"]}}`, `1. Uploaded "a.txt" to [1]`, content, "content of a.txt"},
		{"several", "<input type=file multiple>", `{"upload_file":{"index":1,"paths":["a.txt","b.txt"]}}`, `1. Uploaded "a.txt", "b.txt" to [1]`, content, "content of a.txt,content of b.txt"},
		{"too many", "<input type=file>", `{"upload_file":{"index":1,"paths":["a.txt","b.txt"]}}`, "1. upload_file failed: the field of element 1 takes one file only", content, ""},
		{"hidden, beside a button", "<div><button>Choose</button><input type=file style='display:none'></div>", `{"upload_file":{"index":1,"paths":["a.txt"]}}`, `1. Uploaded "a.txt" to [1]`, content, "content of a.txt"},
		{"label", "<label for=f tabindex=0>Choose</label><div><div><div><div><input id=f type=file></div></div></div></div>", `{"upload_file":{"index":1,"paths":["a.txt"]}}`, `1. Uploaded "a.txt" to [1]`, content, "content of a.txt"},
		{"none", "<div><div><div><div><button>Go</button></div></div></div></div>", `{"upload_file":{"index":1,"paths":["a.txt"]}}`, "1. upload_file failed: element 1 is no field for files, and no single one belongs to it; find the <input type=file> in the state, or use drop_files", "1", "1"},
		{"two", "<div><button>Go</button><input type=file><input type=file></div>", `{"upload_file":{"index":1,"paths":["a.txt"]}}`, "1. upload_file failed: element 1 is no field for files, and no single one belongs to it; find the <input type=file> in the state, or use drop_files", "1", "1"},
		{"denied", "<input type=file>", `{"upload_file":{"index":1,"paths":["denied"]}}`, "1. upload_file failed: denied can't be uploaded: permission denied", content, ""},
		{"no paths", "<input type=file>", `{"upload_file":{"index":1,"paths":[]}}`, "1. upload_file failed: paths is empty", content, ""},
		{"a page that takes it", "<input type=file onchange=\"got = this.files.length; this.value = ''\">", `{"upload_file":{"index":1,"paths":["a.txt"]}}`,
			`1. Uploaded "a.txt" to [1]; the page has taken it out of the field, which now has 0 files: see in the state whether it was accepted`, "got", "1"},
		{"unknown", "<input type=file>", `{"upload_file":{"index":9,"paths":["a.txt"]}}`, "1. upload_file failed: there is no element 9: numbers are from 1 to 1; call browser_state", "1", "1"},
		{"dropped", drop, `{"drop_files":{"index":1,"paths":["a.txt","b.txt"]}}`, `1. Dropped "a.txt", "b.txt" on [1]`, "(await Promise.all(got.map(f => f.text()))).join()", "content of a.txt,content of b.txt"},
		{"in a frame", `<iframe srcdoc="<input type=file onchange='parent.got = this.files[0].name'>"></iframe>`, `{"upload_file":{"index":2,"paths":["a.txt"]}}`, `1. Uploaded "a.txt" to [2]`, "got", "a.txt"},
	} {
		x.open(row.html)
		if got, _ := x.run(row.actions); got != row.want {
			t.Errorf("%s\n got %q\nwant %q", row.name, got, row.want)
		}
		if v := x.eval(row.code); v != row.value {
			t.Errorf("%s: %s is %q, want %q", row.name, row.code, v, row.value)
		}
	}
}

// A page is printed on paper of a format, and is named by its title.
func TestSaveAsPDF(t *testing.T) {
	x := newRig(t)
	var name, kind string
	var content []byte
	x.Save = func(_ context.Context, n, mediaType string, b []byte) (string, error) {
		name, kind, content = n, mediaType, b
		return "/kept/" + n, nil
	}
	x.open("<title>A/B: the report</title><p>Printed")
	got, _ := x.run(`{"save_as_pdf":{"paper_format":"A4","landscape":true}}`)
	if !strings.HasPrefix(got, "1. Saved the page as PDF: /kept/"+name+" (") || name != "B the report.pdf" || kind != "application/pdf" || !bytes.HasPrefix(content, []byte("%PDF-")) {
		t.Errorf("%s, %q, %q, %d bytes", got, name, kind, len(content))
	}
	for actions, want := range map[string]string{
		`{"save_as_pdf":{"scale":3}}`:           "1. save_as_pdf failed: scale is 3; it is 0.1 to 2",
		`{"save_as_pdf":{"paper_format":"B5"}}`: `1. save_as_pdf failed: there is no paper format "B5"; use Letter, Legal, A4, A3 or Tabloid`,
	} {
		if got, _ := x.run(actions); got != want {
			t.Errorf("%s: %s", actions, got)
		}
	}
}
