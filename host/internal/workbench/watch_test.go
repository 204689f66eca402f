//go:build unix

package workbench_test

import (
	"os"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// changes returns the notifications of a watch so far.
func (w *world) changes(id string) (out []protocol.FsChangedNotification) {
	for _, n := range w.told() {
		if p, ok := n.params.(protocol.FsChangedNotification); ok && p.WatchID == id {
			out = append(out, p)
		}
	}
	return out
}

// changed waits until a watch has reported a path.
func (w *world) changed(id, path string) {
	w.t.Helper()
	w.await(func(n note) bool {
		p, ok := n.params.(protocol.FsChangedNotification)
		return ok && n.method == "fs/changed" && p.WatchID == id && slices.Contains(p.ChangedPaths, path)
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	ctx := t.Context()
	w.link("sub", "ws/linked")
	watch := func(id, path string) error {
		got, err := w.bench.FsWatch(ctx, protocol.FsWatchParams{WatchID: id, Path: path})
		if err == nil && got.Path != path {
			t.Errorf("%s: %q", id, got.Path)
		}
		return err
	}
	for id, path := range map[string]string{"dir": "ws", "file": "ws/a.txt", "missing": "ws/later", "link": "ws/linked", "same": "ws/sub"} {
		fails(t, id, watch(id, w.in(path)), 0, "")
	}
	fails(t, "duplicate", watch("dir", w.in("ws/sub")), invalidRequest, "duplicate watchId")
	fails(t, "no id", watch("", w.in("ws")), invalidRequest, "watchId")
	fails(t, "relative", watch("r", "ws"), invalidRequest, "not absolute")
	fails(t, "no folder", watch("n", w.in("ws/none/x")), internalError, "No such file or directory")
	fails(t, "hidden", watch("h", w.in("home/.ssh")), invalidRequest, "hides")

	// Two writes at once are one notification.
	w.write("ws/a.txt", "1")
	w.write("ws/a.txt", "2")
	w.changed("file", w.in("ws/a.txt"))
	w.changed("dir", w.in("ws/a.txt"))
	for _, id := range []string{"file", "dir"} {
		if got := w.changes(id); len(got) != 1 || !slices.Equal(got[0].ChangedPaths, []string{w.in("ws/a.txt")}) {
			t.Errorf("%s: %+v", id, got)
		}
	}
	// A file that is replaced is still watched, as is one that appears.
	w.write("ws/new", "3")
	if err := os.Rename(w.in("ws/new"), w.in("ws/a.txt")); err != nil {
		t.Fatal(err)
	}
	w.write("ws/later", "")
	w.changed("dir", w.in("ws/new"))
	w.changed("missing", w.in("ws/later"))
	w.await(func(note) bool { return len(w.changes("file")) >= 2 })
	w.write("ws/sub/c", "")
	w.changed("link", w.in("ws/linked/c"))
	w.changed("same", w.in("ws/sub/c"))

	fails(t, "unwatch", w.bench.FsUnwatch(ctx, protocol.FsUnwatchParams{WatchID: "same"}), 0, "")
	fails(t, "again", w.bench.FsUnwatch(ctx, protocol.FsUnwatchParams{WatchID: "same"}), 0, "")
	fails(t, "unknown", w.bench.FsUnwatch(ctx, protocol.FsUnwatchParams{WatchID: "none"}), 0, "")
	before := len(w.changes("same"))
	w.write("ws/sub/d", "") // the other watch of the folder goes on
	w.changed("link", w.in("ws/linked/d"))
	if n := len(w.changes("same")); n != before {
		t.Errorf("%d notifications after the end of the watch", n-before)
	}
	fails(t, "the id is free", watch("same", w.in("ws")), 0, "")
	w.bench.Close()
	if err := watch("late", w.in("ws")); err == nil {
		t.Error("a watch was added after the end")
	}
}

func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = w.bench.FsWatch(t.Context(), protocol.FsWatchParams{WatchID: string(rune('a' + n)), Path: w.in("ws")})
	}
	fails(t, "watches", err, invalidRequest, "limit")
}
