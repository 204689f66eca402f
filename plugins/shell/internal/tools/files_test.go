//go:build unix

package tools_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func TestEditFile(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\nb\n")
	args := object{"path": "f", "old_text": "b", "new_text": "B\nc"}
	path := filepath.Join(r.cwd, "f")
	a := r.assess("edit_file", args)
	if a.Early != nil {
		t.Fatal(a.Early.Parts[0])
	}
	if w, ok := a.Effects[0].(contract.WriteEffect); !ok || len(a.Effects) != 1 || !slices.Equal(w.Paths, []string{path}) || a.ReadOnly ||
		a.Summary != "edit_file f" {
		t.Errorf("assessment = %+v", a)
	}
	if got := get(t, r.cwd, "f"); got != "a\nb\n" {
		t.Errorf("assessing changed f to %q", got)
	}
	got := r.start("edit_file", args, a, nil).wait()
	if got.text() != "Updated f." || got.IsError || get(t, r.cwd, "f") != "a\nB\nc\n" {
		t.Errorf("text = %q, f = %q", got.text(), get(t, r.cwd, "f"))
	}
	changes := got.Item.(*contract.FileChangeItem).Changes
	if len(changes) != 1 || changes[0].Path != path || changes[0].Kind != contract.ChangeUpdate || changes[0].Diff != "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n" {
		t.Errorf("changes = %+v", changes)
	}
	for i, s := range r.host.Spawned() {
		if s.GetReadOnly() != (i == 0) || s.GetCallToken() != "ct" {
			t.Errorf("process %d: %v", i, s)
		}
	}
	if got := r.call("edit_file", object{"path": "new/n", "old_text": "", "new_text": "x\n"}); got.text() != "Created new/n." || get(t, r.cwd, "new/n") != "x\n" {
		t.Errorf("text = %q", got.text())
	}
}

func TestInvalidEditIsAnsweredEarly(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\na\n")
	for _, tt := range []struct {
		args any
		want string
	}{
		{object{"path": "f", "old_text": "a", "new_text": "b"}, "old_text occurs more than once in {cwd}/f, at lines 1, 2: include more of the surrounding lines, or set replace_all"},
		{object{"path": "f", "old_text": "c", "new_text": "b"}, "old_text was not found in {cwd}/f."},
		{object{"path": "g", "old_text": "c", "new_text": "b"}, "Failed to read file to update {cwd}/g: No such file or directory (os error 2)"},
		{`{"path":"f"}`, "failed to parse function arguments: missing field `old_text`"},
	} {
		if a := r.call("edit_file", tt.args); !a.early || !a.IsError || !strings.HasPrefix(a.text(), strings.ReplaceAll(tt.want, "{cwd}", r.cwd)) {
			t.Errorf("%v: early %v, %q, want %q", tt.args, a.early, a.text(), tt.want)
		}
	}
}

func TestEditOfAFileThatChangedMeanwhile(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\n")
	args := object{"path": "f", "old_text": "a", "new_text": "b"}
	a := r.assess("edit_file", args)
	put(t, r.cwd, "f", "a\nelse\n")
	for range 2 { // with the plan that was assessed, and with none
		got := r.start("edit_file", args, a, nil).wait()
		if !got.IsError || !strings.HasPrefix(got.text(), "edit_file failed: ") || !strings.Contains(got.text(), "changed since") {
			t.Errorf("text = %q", got.text())
		}
	}
	if got := get(t, r.cwd, "f"); got != "a\nelse\n" {
		t.Errorf("f = %q", got)
	}
}

func TestDeniedEdit(t *testing.T) {
	r := newRig(t, rigOptions{host: processtest.Options{Refuse: func(req *gantryv1.SpawnRequest) *gantryv1.SpawnError {
		if req.GetReadOnly() {
			return nil
		}
		return &gantryv1.SpawnError{Message: "the grant forbids it", Denied: true}
	}}})
	put(t, r.cwd, "f", "a\n")
	a := r.call("edit_file", object{"path": "f", "old_text": "a", "new_text": "b"})
	if !a.IsError || !a.SandboxDenied || !strings.HasPrefix(a.text(), "edit_file failed: ") || get(t, r.cwd, "f") != "a\n" {
		t.Errorf("result = %+v, %q", a.Result, a.text())
	}
}

func TestLookAtFiles(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "a.go", "package a\n")
	put(t, r.cwd, "d/b.go", "package b\n")
	for _, tt := range []struct {
		tool string
		args object
		want string
		err  bool
	}{
		{"read_file", object{"path": "a.go"}, "     1\tpackage a\n", false},
		{"read_file", object{"path": filepath.Join(r.cwd, "d/b.go"), "offset": 1, "limit": nil}, "     1\tpackage b\n", false},
		{"read_file", object{"path": "none"}, "unable to read " + r.cwd + "/none: No such file or directory (os error 2)", true},
		{"list_files", object{}, "a.go\nd/\nd/b.go\n", false},
		{"list_files", object{"path": "d", "glob": "*.go"}, "b.go\n", false},
		{"search_files", object{"pattern": "package [ab]"}, "a.go:1: package a\nd/b.go:1: package b\n", false},
		{"search_files", object{"pattern": "(", "path": "d"}, "pattern: error parsing regexp: missing closing ): `(`", true},
	} {
		a := r.call(tt.tool, tt.args)
		if a.text() != tt.want || a.IsError != tt.err {
			t.Errorf("%s %v: %q, want %q", tt.tool, tt.args, a.text(), tt.want)
		}
		if !a.assessment.ReadOnly || len(a.assessment.Effects) != 0 {
			t.Errorf("%s: assessment %+v", tt.tool, a.assessment)
		}
	}
	for _, s := range r.host.Spawned() {
		if !s.GetReadOnly() {
			t.Errorf("a file was read by a process that may write: %v", s)
		}
	}
	outside := r.assess("read_file", object{"path": "../x"})
	if e, ok := outside.Effects[0].(contract.ReadEffect); !ok || !outside.ReadOnly || e.Paths[0] != filepath.Join(filepath.Dir(r.cwd), "x") {
		t.Errorf("outside: %+v", outside)
	}
	if err := os.RemoveAll(r.cwd); err != nil {
		t.Fatal(err)
	}
	if a := r.call("list_files", object{}); !a.IsError || !strings.HasPrefix(a.text(), "unable to read ") {
		t.Errorf("a folder that is gone: %q", a.text())
	}
}
