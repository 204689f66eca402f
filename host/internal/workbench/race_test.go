//go:build unix

package workbench_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// While a folder is being replaced by a link to where commands may not write, and back, nothing is written there.
func TestLinksThatAppear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	w.write("ws/flip/in/x", "x")
	w.link(w.in("out"), "ws/flip/link")
	before := w.read("out/c.txt")
	stop := make(chan struct{})
	var flips sync.WaitGroup
	flips.Go(func() { // ends with stop
		at, other := w.in("ws/flip/at"), w.in("ws/flip/in")
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(other, at)
			os.Rename(at, other)
			os.Symlink(w.in("out"), at)
			os.Remove(at)
		}
	})
	ctx := t.Context()
	written := 0
	for range 500 {
		path := w.in("ws/flip/at")
		if w.bench.FsWriteFile(ctx, protocol.FsWriteFileParams{Path: path + "/evil", DataBase64: coded("evil")}) == nil {
			written++
		}
		_ = w.bench.FsWriteFile(ctx, protocol.FsWriteFileParams{Path: path + "/c.txt", DataBase64: coded("evil")})
		_ = w.bench.FsCreateDirectory(ctx, protocol.FsCreateDirectoryParams{Path: path + "/d", Recursive: new(false)})
		_ = w.bench.FsCopy(ctx, protocol.FsCopyParams{SourcePath: w.in("ws/a.txt"), DestinationPath: path + "/copy"})
		_ = w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: path + "/c.txt"})
	}
	close(stop)
	flips.Wait()
	t.Logf("%d files were written in the folder", written)
	list, err := os.ReadDir(w.in("out"))
	if err != nil || len(list) != 1 || w.read("out/c.txt") != before {
		t.Errorf("outside there are %v, %v", list, err)
	}
}

// FuzzPaths writes, copies, creates and removes at any path, with links in the workspace. Nothing outside of it changes, nor what is
// protected in it.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{
		"ws/new", "ws/../out/x", "ws/sub/out/x", "ws/.git/hooks/x", "ws//.git/./hooks/x", "ws/sub/hooks/../x", "gantry/x", "", "ws/\x00", "ws/sub/away",
		"ws/.gantry", "ws/sub/.git", "ws/secret.env/x", "/", "ws/sub/out/../.git/config", "home/.ssh/id", "ws/…", "ws/a.txt/../../out/c.txt",
	} {
		f.Add(s, s)
	}
	w := hostile(f, box.WorkspaceWrite)
	guard := func(t testing.TB) map[string]string {
		all := snapshot(t, w)
		for path := range all {
			rest, inside := strings.CutPrefix(path, "/ws/")
			if inside && !strings.Contains("/"+rest+"/", "/.git/") && !strings.Contains("/"+rest+"/", "/.gantry/") && !strings.HasSuffix(strings.ToLower(rest), ".env") {
				delete(all, path)
			}
		}
		return all
	}
	before := guard(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		os.MkdirAll(w.in("ws/sub"), 0o755) // may have been removed
		os.Symlink("../.git/hooks", w.in("ws/sub/hooks"))
		os.Symlink("../../out", w.in("ws/sub/out"))
		ctx := t.Context()
		pa, pb := w.top+"/"+a, w.top+"/"+b
		if !strings.HasPrefix(filepath.Clean(pa), w.top) || !strings.HasPrefix(filepath.Clean(pb), w.top) {
			return // the machine's own files
		}
		_ = w.bench.FsWriteFile(ctx, protocol.FsWriteFileParams{Path: pa, DataBase64: coded("x")})
		_ = w.bench.FsCreateDirectory(ctx, protocol.FsCreateDirectoryParams{Path: pb})
		_ = w.bench.FsCopy(ctx, protocol.FsCopyParams{SourcePath: pa, DestinationPath: pb, Recursive: true})
		_, _ = w.bench.FsReadFile(ctx, protocol.FsReadFileParams{Path: pb})
		_, _ = w.bench.FsGetMetadata(ctx, protocol.FsGetMetadataParams{Path: pa})
		_, _ = w.bench.FsReadDirectory(ctx, protocol.FsReadDirectoryParams{Path: pb})
		_ = w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: pb})
		_ = w.bench.FsRemove(ctx, protocol.FsRemoveParams{Path: pa})
		if after := guard(t); len(differences(before, after)) > 0 {
			t.Errorf("%q, %q changed %v", a, b, differences(before, after))
		}
	})
}
