//go:build linux

package workbench_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Root's commands have no capabilities in the sandbox, so that files of other users are closed to them. The methods for files open no more.
func TestFilesOfOtherUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root could open them")
	}
	const other = 65534
	own := func(w *world, path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(w.in(path), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(w.in(path), other, other); err != nil {
			t.Fatal(err)
		}
	}
	for mode, open := range map[string]bool{box.WorkspaceWrite: false, launch.FullAccess: true} {
		w := commands(t, mode)
		if open {
			w.cfg.Sandbox.DenyRead = nil // which needs a sandbox
		}
		w.write("ws/theirs", "theirs")
		w.write("ws/shared", "shared")
		w.write("ws/closed/inside", "inside")
		own(w, "ws/theirs", 0o600)
		own(w, "ws/shared", 0o644)
		own(w, "ws/closed", 0o700)
		ctx := t.Context()
		try := func(what string, err error) {
			t.Helper()
			if (err == nil) != open || err != nil && !strings.Contains(err.Error(), "Permission denied") {
				t.Errorf("%s: %s: %v", mode, what, err)
			}
		}
		read := func(path string) error {
			_, err := w.bench.FsReadFile(ctx, protocol.FsReadFileParams{Path: w.in(path)})
			return err
		}
		command, err := w.bench.CommandExec(ctx, sh("cat theirs closed/inside && echo x >> shared && touch closed/new"), nil)
		if err != nil || (command.ExitCode == 0) != open {
			t.Errorf("%s: a command: %+v, %v", mode, command, err)
		}
		if err := read("ws/shared"); err != nil {
			t.Errorf("%s: what all may read: %v", mode, err)
		}
		try("read a file", read("ws/theirs"))
		try("read in a folder", read("ws/closed/inside"))
		try("write", w.bench.FsWriteFile(ctx, protocol.FsWriteFileParams{Path: w.in("ws/shared")}))
		try("create", w.bench.FsWriteFile(ctx, protocol.FsWriteFileParams{Path: w.in("ws/closed/created")}))
		try("create a folder", w.bench.FsCreateDirectory(ctx, protocol.FsCreateDirectoryParams{Path: w.in("ws/closed/folder")}))
		_, err = w.bench.FsReadDirectory(ctx, protocol.FsReadDirectoryParams{Path: w.in("ws/closed")})
		try("list", err)
		try("copy", w.bench.FsCopy(ctx, protocol.FsCopyParams{SourcePath: w.in("ws/theirs"), DestinationPath: w.in("ws/copied")}))
		_, err = w.bench.FsWatch(ctx, protocol.FsWatchParams{WatchID: "w", Path: w.in("ws/closed")})
		try("watch", err)
		found, err := w.bench.FuzzyFileSearch(ctx, protocol.FuzzyFileSearchParams{Query: "inside", Roots: []string{w.in("ws")}})
		if err != nil || (len(found.Files) > 0) != open {
			t.Errorf("%s: search: %+v, %v", mode, found, err)
		}
		try("remove", w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: w.in("ws/closed/inside")}))
	}
}
