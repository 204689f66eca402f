//go:build unix

package workbench_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

const (
	invalidRequest = -32600
	invalidParams  = -32602
	internalError  = -32603
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

func (w *world) link(to, path string) {
	w.t.Helper()
	if err := os.Symlink(to, w.in(path)); err != nil {
		w.t.Fatal(err)
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	w.link("../../out/c.txt", "ws/sub/link")
	w.link("../../home/.ssh", "ws/sub/keys")
	w.link("nowhere", "ws/sub/dangling")
	if err := syscall.Mkfifo(w.in("ws/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path, want string
		code       int64
		text       string
	}{
		{w.in("ws/a.txt"), "a", 0, ""},
		{w.in("ws/sub/../a.txt"), "a", 0, ""},
		{w.in("out/c.txt"), "c", 0, ""}, // commands read everything that is not hidden
		{w.in("ws/sub/link"), "c", 0, ""},
		{w.in("ws/.git/hooks/pre-commit"), "old", 0, ""},
		{w.in("ws/missing"), "", internalError, "No such file or directory"},
		{w.in("ws/a.txt/x"), "", internalError, "Not a directory"},
		{w.in("ws/sub/dangling"), "", internalError, "No such file or directory"},
		{w.in("ws/sub"), "", internalError, "is a folder"},
		{w.in("ws/pipe"), "", internalError, "neither a file nor a folder"},
		{"ws/a.txt", "", invalidRequest, "path \"ws/a.txt\" is not absolute"},
		{"", "", invalidRequest, "path must not be empty"},
		{w.in("ws/a\x00"), "", invalidRequest, "NUL"},
		{w.in("home/.ssh/id"), "", invalidRequest, "hides"},
		{w.in("ws/sub/keys/id"), "", invalidRequest, "hides"},
		{w.in("gantry/gantry.hcl"), "", invalidRequest, "belongs to gantry"},
		{w.in("ws/secret.env"), "", invalidRequest, "configuration"},
		{w.in("ws/SECRET.ENV"), "", invalidRequest, "configuration"},
		{"/proc/self/environ", "", invalidRequest, "hides"},
	} {
		if strings.HasPrefix(tc.path, "/proc") && runtime.GOOS != "linux" {
			continue
		}
		got, err := w.bench.FsReadFile(t.Context(), protocol.FsReadFileParams{Path: tc.path})
		fails(t, tc.path, err, tc.code, tc.text)
		if err == nil && got.DataBase64 != coded(tc.want) {
			t.Errorf("%s: %q", tc.path, got.DataBase64)
		}
	}
}

// A command could not write any of these either.
var kept = []string{
	"ws/.git/hooks/pre-commit", "ws/.git/hooks/new", "ws/.git/config", "ws/.gantry/gantry.hcl", "ws/.gantry/new", "ws/.codex/x", "ws/sub/.git/hooks/x",
	"ws/sub/.gantry/x", "gantry/gantry.hcl", "gantry/new", "out/c.txt", "out/new", "home/notes", "home/.ssh/id", "ws/secret.env", "ws/new.env",
	"ws/sub/hooks/pre-commit", "ws/sub/out/c.txt", "ws/sub/out/new", "ws/sub/away",
}

// hostile is a world in which a command has made links to what it can't write.
func hostile(t testing.TB, mode string) *world {
	w := newWorld(t, mode)
	w.link("../.git/hooks", "ws/sub/hooks")
	w.link("../../out", "ws/sub/out")
	w.link(w.in("out/created"), "ws/sub/away")
	return w
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	w := hostile(t, box.WorkspaceWrite)
	put := func(path, text string) error {
		return w.bench.FsWriteFile(t.Context(), protocol.FsWriteFileParams{Path: path, DataBase64: coded(text)})
	}
	for _, path := range []string{"ws/new.txt", "ws/a.txt", "ws/sub/b.txt", "ws/.gitignore", "ws/.git2"} {
		fails(t, path, put(w.in(path), "text"), 0, "")
		if got := w.read(path); got != "text" {
			t.Errorf("%s: %q", path, got)
		}
	}
	if err := os.Chmod(w.in("ws/a.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	fails(t, "shorter", put(w.in("ws/a.txt"), "t"), 0, "")
	if info, _ := os.Stat(w.in("ws/a.txt")); w.read("ws/a.txt") != "t" || info.Mode().Perm() != 0o755 {
		t.Errorf("%q, mode %v", w.read("ws/a.txt"), info.Mode())
	}
	w.link("a.txt", "ws/through")
	fails(t, "through a link in the workspace", put(w.in("ws/through"), "u"), 0, "")
	if w.read("ws/a.txt") != "u" {
		t.Error("the link was replaced")
	}
	before := snapshot(t, w)
	for _, path := range kept {
		fails(t, path, put(w.in(path), "evil"), invalidRequest, "")
	}
	fails(t, "relative", put("a.txt", ""), invalidRequest, "not absolute")
	fails(t, "bad data", w.bench.FsWriteFile(t.Context(), protocol.FsWriteFileParams{Path: w.in("ws/a.txt"), DataBase64: "%"}), invalidRequest, "dataBase64")
	fails(t, "no folder", put(w.in("ws/none/x"), ""), internalError, "No such file or directory")
	fails(t, "a folder", put(w.in("ws/sub"), ""), internalError, "directory")
	if after := snapshot(t, w); !reflect.DeepEqual(before, after) {
		t.Errorf("changed: %v", differences(before, after))
	}
}

func TestReadOnlyModeWritesNothing(t *testing.T) {
	t.Parallel()
	w := hostile(t, box.ReadOnly)
	before := snapshot(t, w)
	for _, path := range append([]string{"ws/new", "ws/a.txt"}, kept...) {
		ctx, path := t.Context(), w.in(path)
		fails(t, path, w.bench.FsWriteFile(ctx, protocol.FsWriteFileParams{Path: path}), invalidRequest, "")
		fails(t, path, w.bench.FsCreateDirectory(ctx, protocol.FsCreateDirectoryParams{Path: path + "/d"}), invalidRequest, "")
		fails(t, path, w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: path}), invalidRequest, "")
		fails(t, path, w.bench.FsCopy(ctx, protocol.FsCopyParams{SourcePath: w.in("ws/sub/b.txt"), DestinationPath: path}), invalidRequest, "")
	}
	if after := snapshot(t, w); !reflect.DeepEqual(before, after) {
		t.Errorf("changed: %v", differences(before, after))
	}
}

func TestFullAccess(t *testing.T) {
	t.Parallel()
	w := hostile(t, launch.FullAccess)
	for _, path := range []string{"ws/.git/hooks/pre-commit", "out/new", "home/.ssh/id", "ws/sub/out/c.txt"} {
		fails(t, path, w.bench.FsWriteFile(t.Context(), protocol.FsWriteFileParams{Path: w.in(path), DataBase64: coded("x")}), 0, "")
	}
	for _, path := range []string{"gantry/gantry.hcl", "gantry/new"} {
		fails(t, path, w.bench.FsWriteFile(t.Context(), protocol.FsWriteFileParams{Path: w.in(path)}), invalidRequest, "gantry")
	}
	fails(t, "home", w.bench.FsRemove(t.Context(), protocol.FsRemoveParams{Path: w.top}), invalidRequest, "gantry")
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	w := hostile(t, box.WorkspaceWrite)
	ctx, no := t.Context(), false
	mkdir := func(path string, recursive *bool) error {
		return w.bench.FsCreateDirectory(ctx, protocol.FsCreateDirectoryParams{Path: w.in(path), Recursive: recursive})
	}
	fails(t, "new", mkdir("ws/d/e/f", nil), 0, "")
	fails(t, "again", mkdir("ws/d/e/f", nil), 0, "")
	fails(t, "not recursive", mkdir("ws/g", &no), 0, "")
	fails(t, "exists", mkdir("ws/g", &no), internalError, "File exists")
	fails(t, "no parent", mkdir("ws/x/y", &no), internalError, "No such file or directory")
	fails(t, "a file", mkdir("ws/a.txt", nil), internalError, "")
	fails(t, "below a file", mkdir("ws/a.txt/b", nil), internalError, "Not a directory")
	for _, path := range kept {
		fails(t, path, mkdir(path+"/d", nil), invalidRequest, "")
	}
	if info, err := os.Stat(w.in("ws/d/e/f")); err != nil || !info.IsDir() {
		t.Error(err)
	}
	got, err := w.bench.FsReadDirectory(ctx, protocol.FsReadDirectoryParams{Path: w.in("ws/sub")})
	want := `{"entries":[{"fileName":"away","isDirectory":false,"isFile":false},{"fileName":"b.txt","isDirectory":false,"isFile":true},` +
		`{"fileName":"hooks","isDirectory":true,"isFile":false},{"fileName":"out","isDirectory":true,"isFile":false}]}`
	if b, _ := json.Marshal(got); err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	_, err = w.bench.FsReadDirectory(ctx, protocol.FsReadDirectoryParams{Path: w.in("ws/a.txt")})
	fails(t, "a file", err, internalError, "is not a folder")
	_, err = w.bench.FsReadDirectory(ctx, protocol.FsReadDirectoryParams{Path: w.in("home/.ssh")})
	fails(t, "keys", err, invalidRequest, "hides")
	if _, err := w.bench.FsReadDirectory(ctx, protocol.FsReadDirectoryParams{Path: "/"}); err != nil {
		t.Error(err)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	w := hostile(t, box.WorkspaceWrite)
	w.link("a.txt", "ws/l")
	for path, want := range map[string]protocol.FsGetMetadataResponse{
		"ws/a.txt": {IsFile: true}, "ws/sub": {IsDirectory: true}, "ws/l": {IsFile: true, IsSymlink: true}, "ws/sub/out": {IsDirectory: true, IsSymlink: true},
	} {
		got, err := w.bench.FsGetMetadata(t.Context(), protocol.FsGetMetadataParams{Path: w.in(path)})
		if got.ModifiedAtMs == 0 || err != nil {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		got.ModifiedAtMs, got.CreatedAtMs = 0, 0
		if got != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	_, err := w.bench.FsGetMetadata(t.Context(), protocol.FsGetMetadataParams{Path: w.in("ws/none")})
	fails(t, "missing", err, internalError, "No such file or directory")
}

func TestRemove(t *testing.T) {
	t.Parallel()
	w := hostile(t, box.WorkspaceWrite)
	ctx, no := t.Context(), false
	remove := func(path string) error { return w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: w.in(path)}) }
	w.write("ws/d/e/f", "")
	w.write("ws/n/.git/hooks/x", "")
	w.write("ws/m/deep/x.env", "")
	before := snapshot(t, w)
	for _, path := range append([]string{"ws", ".", "ws/.git", "ws/n", "ws/m"}, kept...) {
		if path == "ws/sub/away" { // the link itself may go
			continue
		}
		fails(t, path, remove(path), invalidRequest, "")
	}
	fails(t, "folder, not recursive", w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: w.in("ws/d"), Recursive: &no}), internalError, "not empty")
	fails(t, "missing", remove("ws/none"), 0, "")
	fails(t, "missing, not forced", w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: w.in("ws/none"), Force: &no}), internalError, "No such file or directory")
	if after := snapshot(t, w); !reflect.DeepEqual(before, after) {
		t.Errorf("changed: %v", differences(before, after))
	}
	for _, path := range []string{"ws/d", "ws/a.txt", "ws/sub/out", "ws/sub/away", "ws/sub"} {
		fails(t, path, remove(path), 0, "")
		if _, err := os.Lstat(w.in(path)); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if w.read("out/c.txt") != "c" || w.read("ws/.git/hooks/pre-commit") != "old" {
		t.Error("what links lead to was removed")
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	w := hostile(t, box.WorkspaceWrite)
	ctx := t.Context()
	cp := func(from, to string, recursive bool) error {
		return w.bench.FsCopy(ctx, protocol.FsCopyParams{SourcePath: w.in(from), DestinationPath: w.in(to), Recursive: recursive})
	}
	fails(t, "file", cp("out/c.txt", "ws/c.txt", false), 0, "")
	fails(t, "over a file", cp("out/c.txt", "ws/a.txt", false), 0, "")
	fails(t, "folder", cp("ws/sub", "ws/copy", true), 0, "")
	for path, want := range map[string]string{"ws/c.txt": "c", "ws/a.txt": "c", "ws/copy/b.txt": "b"} {
		if got := w.read(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if to, err := os.Readlink(w.in("ws/copy/out")); to != "../../out" {
		t.Errorf("the link is %q, %v", to, err)
	}
	w.write("out/repo/.git/hooks/x", "evil")
	w.write("ws/p/x.env", "s")
	before := snapshot(t, w)
	fails(t, "folder, not recursive", cp("ws/sub", "ws/other", false), invalidRequest, "recursive")
	fails(t, "into itself", cp("ws/sub", "ws/sub/x", true), invalidRequest, "into itself")
	fails(t, "onto itself", cp("ws/sub/b.txt", "ws/sub/b.txt", true), invalidRequest, "same file")
	fails(t, "keys", cp("home/.ssh/id", "ws/id", false), invalidRequest, "hides")
	fails(t, "missing", cp("ws/none", "ws/x", false), internalError, "No such file or directory")
	for _, path := range kept {
		fails(t, path, cp("ws/sub/b.txt", path, false), invalidRequest, "")
	}
	if after := snapshot(t, w); !reflect.DeepEqual(before, after) {
		t.Errorf("changed: %v", differences(before, after))
	}
	fails(t, "a repository with hooks", cp("out/repo", "ws/r", true), invalidRequest, "")
	fails(t, "a denied file", cp("ws/p", "ws/q", true), invalidRequest, "")
	for _, path := range []string{"ws/r/.git/hooks/x", "ws/q/x.env"} {
		if _, err := os.Lstat(w.in(path)); err == nil {
			t.Errorf("%s was created", path)
		}
	}
}

// snapshot returns the files of a world with their contents.
func snapshot(t testing.TB, w *world) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(w.top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := e.Type().String()
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += string(b)
		}
		out[strings.TrimPrefix(path, w.top)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func differences(a, b map[string]string) (out []string) {
	for path, text := range b {
		if a[path] != text {
			out = append(out, path)
		}
	}
	for path := range a {
		if _, ok := b[path]; !ok {
			out = append(out, path+" is gone")
		}
	}
	return out
}
