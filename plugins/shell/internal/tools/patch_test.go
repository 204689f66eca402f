//go:build unix

package tools_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// patchText is what the model reads of a patch, with no time gone by.
func (a *answer) patchText() string {
	return patchWall.ReplaceAllString(a.text(), "\nWall time: 0 seconds\n")
}

var patchWall = regexp.MustCompile(`\nWall time: [0-9]+(\.[0-9])? seconds\n`)

const applied = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n"

// updating changes line a of file f to b.
const updating = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch\n"

func TestPatch(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\n")
	put(t, r.cwd, "old", "x\n")
	put(t, r.cwd, "d", "gone\n")
	text := "*** Begin Patch\n*** Add File: dir/n\n+new\n*** Update File: f\n@@\n-a\n+b\n*** Update File: old\n*** Move to: moved\n@@\n-x\n+y\n" +
		"*** Delete File: d\n*** End Patch"
	path := func(name string) string { return filepath.Join(r.cwd, name) }
	a := r.assess("apply_patch", text)
	if a.Early != nil {
		t.Fatal(a.Early.Parts[0])
	}
	want := contract.WriteEffect{Paths: []string{path("dir/n"), path("f"), path("old"), path("moved"), path("d")}}
	if got, ok := a.Effects[0].(contract.WriteEffect); !ok || len(a.Effects) != 1 || !slices.Equal(got.Paths, want.Paths) {
		t.Errorf("effects = %+v", a.Effects)
	}
	if a.ReadOnly || a.Summary != "apply_patch dir/n, f, moved, d" || !strings.HasPrefix(a.Digest, "p1:") || len(a.Digest) > 128 {
		t.Errorf("assessment = %+v", a)
	}
	if got := get(t, r.cwd, "f"); got != "a\n" {
		t.Errorf("assessing changed f to %q", got)
	}
	got := r.start("apply_patch", text, a, nil).wait()
	// Sorted by what happened, not by the patch.
	if s := got.patchText(); s != applied+"A dir/n\nM f\nM moved\nD d\n" || got.IsError {
		t.Errorf("text = %q", s)
	}
	for name, content := range map[string]string{"dir/n": "new\n", "f": "b\n", "moved": "y\n", "old": "", "d": ""} {
		if c := get(t, r.cwd, name); c != content {
			t.Errorf("%s = %q, want %q", name, c, content)
		}
	}
	changes := got.Item.(*contract.FileChangeItem).Changes
	if len(changes) != 4 {
		t.Fatalf("changes = %+v", changes)
	}
	for i, w := range []struct {
		contract.FileChange
		after string
	}{
		{contract.FileChange{Path: path("dir/n"), Kind: contract.ChangeAdd, Diff: "@@ -0,0 +1 @@\n+new\n"}, "new\n"},
		{contract.FileChange{Path: path("f"), Kind: contract.ChangeUpdate, Diff: "@@ -1 +1 @@\n-a\n+b\n"}, "b\n"},
		{contract.FileChange{Path: path("moved"), Kind: contract.ChangeUpdate, Diff: "@@ -1 +1 @@\n-x\n+y\n", MovedFrom: path("old")}, "y\n"},
		{contract.FileChange{Path: path("d"), Kind: contract.ChangeDelete}, ""},
	} {
		c := changes[i]
		want := ""
		if w.after != "" {
			sum := sha256.Sum256([]byte(w.after))
			want = hex.EncodeToString(sum[:])
		}
		if c.AfterSHA256 != want {
			t.Errorf("%s: becomes %s, want %s", w.Path, c.AfterSHA256, want)
		}
		c.AfterSHA256 = ""
		if c != w.FileChange {
			t.Errorf("change %d = %+v, want %+v", i, c, w.FileChange)
		}
	}
	if item, ok := a.Item.(*contract.FileChangeItem); !ok || len(item.Changes) != 4 || item.Changes[1].Diff == "" || item.Changes[1].AfterSHA256 != changes[1].AfterSHA256 {
		t.Errorf("assessed item = %+v", a.Item)
	}
}

func TestPatchRunsInHelpers(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\n")
	r.call("apply_patch", updating)
	spawned := r.host.Spawned()
	if len(spawned) != 2 {
		t.Fatalf("%d processes, want one that reads and one that writes", len(spawned))
	}
	for i, readOnly := range []bool{true, false} {
		if spawned[i].GetReadOnly() != readOnly || spawned[i].GetSession() || spawned[i].GetCallToken() != "ct" {
			t.Errorf("process %d: %v", i, spawned[i])
		}
	}
}

func TestInvalidPatchIsAnsweredEarly(t *testing.T) {
	r := newRig(t, rigOptions{})
	for text, want := range map[string]string{
		"foo":                            "apply_patch verification failed: invalid patch: The first line of the patch must be '*** Begin Patch'",
		"*** Begin Patch\n*** End Patch": "patch rejected: empty patch",
		updating:                         "apply_patch verification failed: Failed to read file to update " + r.cwd + "/f: No such file or directory (os error 2)",
		"*** Begin Patch\n*** Environment ID: e\n*** Add File: a\n+x\n*** End Patch": "apply_patch environment selection is unavailable for this turn",
	} {
		a := r.call("apply_patch", text)
		if !a.early || !a.IsError || a.text() != want {
			t.Errorf("%q: early %v, %q, want %q", text, a.early, a.text(), want)
		}
	}
}

func TestPatchInJSON(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\n")
	if a := r.call("apply_patch", `{"patch":"*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"}`); a.patchText() != applied+"M f\n" {
		t.Errorf("text = %q", a.text())
	}
}

// What was assessed is what is done, or nothing.
func TestPatchOfFilesThatChangedMeanwhile(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\n")
	a := r.assess("apply_patch", updating)
	put(t, r.cwd, "f", "a\nelse\n")
	got := r.start("apply_patch", updating, a, nil).wait()
	if want := "apply_patch verification failed: " + r.cwd + "/f has changed since it was checked. Read it again before you change it"; got.text() != want || !got.IsError {
		t.Errorf("text = %q, want %q", got.text(), want)
	}
	// A plan that is not there any more is made again, and is another one now.
	got = r.start("apply_patch", updating, a, nil).wait()
	if want := "apply_patch verification failed: the files have changed since they were checked."; !strings.HasPrefix(got.text(), want) {
		t.Errorf("text = %q, want %q first", got.text(), want)
	}
	if c := get(t, r.cwd, "f"); c != "a\nelse\n" {
		t.Errorf("f = %q", c)
	}
	// When it is still the same, it is applied.
	put(t, r.cwd, "f", "a\n")
	if got = r.start("apply_patch", updating, a, nil).wait(); got.patchText() != applied+"M f\n" {
		t.Errorf("text = %q", got.text())
	}
}

func TestPatchFailsHalfway(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "a/x", "1\n")
	a := r.call("apply_patch", "*** Begin Patch\n*** Add File: b\n+x\n*** Add File: a\n+x\n*** Add File: c\n+x\n*** End Patch")
	want := "Exit code: 1\nWall time: 0 seconds\nOutput:\nFailed to write file " + r.cwd + "/a: Is a directory (os error 21)\nThe changes before it were made:\nA b\n"
	if a.patchText() != want || !a.IsError || a.SandboxDenied {
		t.Errorf("text = %q, want %q", a.text(), want)
	}
	if changes := a.Item.(*contract.FileChangeItem).Changes; len(changes) != 1 || changes[0].Path != r.cwd+"/b" {
		t.Errorf("changes = %+v", changes)
	}
}

func TestDeniedPatch(t *testing.T) {
	r := newRig(t, rigOptions{host: processtest.Options{Refuse: func(req *gantryv1.SpawnRequest) *gantryv1.SpawnError {
		if req.GetReadOnly() {
			return nil
		}
		return &gantryv1.SpawnError{Message: "the grant forbids it", Denied: true}
	}}})
	put(t, r.cwd, "f", "a\n")
	a := r.call("apply_patch", updating)
	if !a.IsError || !a.SandboxDenied || !strings.HasPrefix(a.text(), "apply_patch failed: ") || get(t, r.cwd, "f") != "a\n" {
		t.Errorf("result = %+v, %q", a.Result, a.text())
	}
}

func TestInterceptedPatch(t *testing.T) {
	r := newRig(t, rigOptions{})
	heredoc := func(program string) string { return program + " <<'EOF'\n" + updating + "EOF\n" }
	const done = "Wall time: 0.0000 seconds\nOutput:\n" + applied + "M f\n"
	for _, tt := range []struct {
		name, cmd, workdir, file string
		want                     string
	}{
		{"heredoc", heredoc("apply_patch"), "", "f", done},
		{"after cd", "cd sub && " + heredoc("apply_patch"), "", "sub/f", done},
		{"after cd with a space", "cd \"s p\" && " + heredoc("applypatch"), "", "s p/f", done},
		{"in a workdir", heredoc("apply_patch"), "sub", "sub/f", done},
		{"after cd in a workdir", "cd deeper && " + heredoc("apply_patch"), "sub", "sub/deeper/f", done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			put(t, r.cwd, tt.file, "a\n")
			args := object{"cmd": tt.cmd, "workdir": tt.workdir}
			a := r.call("exec_command", args)
			if a.patchText() != tt.want || a.IsError {
				t.Errorf("text = %q, want %q", a.text(), tt.want)
			}
			if got := get(t, r.cwd, tt.file); got != "b\n" {
				t.Errorf("%s = %q", tt.file, got)
			}
			if w, ok := a.assessment.Effects[0].(contract.WriteEffect); !ok || !slices.Equal(w.Paths, []string{filepath.Join(r.cwd, tt.file)}) {
				t.Errorf("effects = %+v", a.assessment.Effects)
			}
		})
	}
	for _, tt := range []struct{ name, cmd, want string }{
		{"raw patch", updating, `apply_patch verification failed: patch detected without explicit call to apply_patch. Rerun as ["apply_patch", "<patch>"]`},
		{"garbage", "apply_patch <<'EOF'\ngarbage\nEOF\n", "apply_patch verification failed: invalid patch: The first line of the patch must be '*** Begin Patch'"},
		{"does not apply", "apply_patch <<'EOF'\n" + strings.ReplaceAll(updating, "-a", "-z") + "EOF\n",
			"apply_patch verification failed: Failed to find expected lines in " + r.cwd + "/f:\nz"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := r.call("exec_command", object{"cmd": tt.cmd}); a.text() != tt.want || !a.early {
				t.Errorf("early %v, %q, want %q", a.early, a.text(), tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name, cmd string
		code      string
	}{
		{"semicolon", "cd sub; " + heredoc("apply_patch"), "127"},
		{"command before", "echo a && " + heredoc("apply_patch"), "127"},
		{"command after", heredoc("apply_patch") + "echo done", "0"},
		{"as an argument", "apply_patch '" + updating + "'", "127"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			put(t, r.cwd, "f", "a\n")
			a := r.call("exec_command", plain(tt.cmd))
			if !strings.HasPrefix(a.tail(), "Process exited with code "+tt.code+"\n") || !strings.Contains(a.text(), "apply_patch: command not found") &&
				!strings.Contains(a.text(), "apply_patch: not found") {
				t.Errorf("text = %q", a.text())
			}
			if get(t, r.cwd, "f") != "a\n" {
				t.Error("the patch was applied")
			}
		})
	}
}

func TestManyAssessedPatches(t *testing.T) {
	r := newRig(t, rigOptions{})
	put(t, r.cwd, "f", "a\n")
	first := r.assess("apply_patch", updating)
	for range 10 {
		r.assess("apply_patch", "*** Begin Patch\n*** Add File: other\n+x\n*** End Patch")
	}
	if got := r.start("apply_patch", updating, first, nil).wait(); got.patchText() != applied+"M f\n" {
		t.Errorf("text = %q", got.text())
	}
}

// heldHost keeps the first helper that is to write waiting, and tells of a second one that comes meanwhile.
type heldHost struct {
	*processtest.Host
	held, release chan struct{}
	writers       atomic.Int32
}

func (h *heldHost) Spawn(ctx context.Context, req *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	if strings.HasSuffix(req.GetArgv()[len(req.GetArgv())-1], "apply") {
		if h.writers.Add(1) == 1 {
			close(h.held)
			<-h.release
		}
	}
	return h.Host.Spawn(ctx, req)
}

// Two patches of one file, both checked before either was made: the later one must not write what it made of the file as it
// was.
func TestConcurrentPatches(t *testing.T) {
	h := &heldHost{held: make(chan struct{}), release: make(chan struct{})}
	r := newRig(t, rigOptions{host: processtest.Options{Service: func(p *processtest.Host) gantryv1.HostServiceServer {
		h.Host = p
		return h
	}}})
	put(t, r.cwd, "f", "a\nb\n")
	begin := func(line string) *running {
		args := plain("apply_patch <<'E'\n*** Begin Patch\n*** Update File: f\n@@\n-" + line + "\n+" + line + line + "\n*** End Patch\nE")
		return r.start("exec_command", args, r.assess("exec_command", args), nil)
	}
	started := func(e contract.CallEvent) bool { _, ok := e.(contract.Started); return ok }
	first := begin("a")
	<-h.held
	second := begin("b")
	second.until(started)
	r.call("exec_command", plain("true")) // the time that the second one would need
	if n := h.writers.Load(); n != 1 {
		t.Errorf("%d helpers write", n)
	}
	close(h.release)
	if a := first.wait(); a.IsError {
		t.Errorf("the first: %q", a.text())
	}
	if a := second.wait(); !a.IsError || !strings.Contains(a.text(), "has changed since it was checked") {
		t.Errorf("the second: %q", a.text())
	}
	if got := get(t, r.cwd, "f"); got != "aa\nb\n" {
		t.Errorf("f = %q", got)
	}
}
