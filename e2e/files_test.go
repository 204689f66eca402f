package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A model whose row says so edits by text instead of patches. What it changes is confined, shown and taken back as any patch.
func TestModelThatDoesNotWritePatches(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [
  { call = "read_file", id = "read", args = { path = "f" } },
  { call = "search_files", id = "find", args = { pattern = "^t" } },
  { call = "list_files", id = "list", args = {} },
]
[[step]]
do = [{ call = "edit_file", id = "edit", args = { path = "f", old_text = "two\n", new_text = "2\n" } }]
[[step]]
do = [{ call = "edit_file", id = "new", args = { path = "sub/n", old_text = "", new_text = "new\n" } }]
[[step]]
do = [{ call = "edit_file", id = "twice", args = { path = "f", old_text = "e", new_text = "E" } }]
[[step]]
do = [{ call = "edit_file", id = "out", args = { path = "../out", old_text = "", new_text = "x" } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Write("f", "one\ntwo\nthree\n")
	r.OK("exec", "-c", `provider.scripted.tool_traits=["edits","files"]`, "-c", "sandbox.mode=workspace-write", "go")
	q := r.Last()
	offered := q.Offered()
	for name, want := range map[string]bool{"edit_file": true, "read_file": true, "list_files": true, "search_files": true, "exec_command": true, "apply_patch": false} {
		if slices.Contains(offered, name) != want {
			t.Errorf("%s is offered: %v, want %v", name, !want, want)
		}
	}
	out := q.Outputs()
	for id, want := range map[string]string{
		"read": "     1\tone\n     2\ttwo\n     3\tthree\n", "find": "f:2: two\nf:3: three\n", "list": "f\n", "edit": "Updated f.", "new": "Created sub/n.",
	} {
		if out[id] != want {
			t.Errorf("%s: %q, want %q", id, out[id], want)
		}
	}
	if !strings.Contains(out["twice"], "at lines 1, 3") {
		t.Errorf("twice: %q", out["twice"])
	}
	if exists(filepath.Dir(r.Dir), "out") {
		t.Errorf("a file outside the project was written: %q", out["out"])
	}
	if f, n := r.Read("f"), r.Read("sub/n"); f != "one\n2\nthree\n" || n != "new\n" {
		t.Errorf("f = %q, n = %q", f, n)
	}
	r.OK("undo")
	if f := r.Read("f"); f != "one\ntwo\nthree\n" || exists(r.Dir, "sub/n") {
		t.Errorf("after the undo f = %q", f)
	}
	r.NothingLeft()
}

// Without a word about it, a model has patches and none of the others.
func TestToolsThatAreOffByDefault(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ndo = [{ text = \"done\" }]\n")
	r.OK("exec", "go")
	offered := r.Last().Offered()
	if !slices.Contains(offered, "apply_patch") {
		t.Errorf("apply_patch is not offered: %q", offered)
	}
	for _, name := range []string{"edit_file", "read_file", "list_files", "search_files"} {
		if slices.Contains(offered, name) {
			t.Errorf("%s is offered", name)
		}
	}
}
