package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// memory keeps content in a map.
type memory struct {
	content map[string][]byte
	full    bool
}

func (m *memory) PutArtifact(_ context.Context, _, _ string, r io.Reader) (contract.ArtifactRef, error) {
	if m.full {
		return contract.ArtifactRef{}, errors.New("no space left")
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return contract.ArtifactRef{}, err
	}
	if m.content == nil {
		m.content = map[string][]byte{}
	}
	m.content[digest(string(b))] = b
	return contract.ArtifactRef{SHA256: digest(string(b))}, nil
}

func (m *memory) Artifact(_ context.Context, digest string) (io.ReadCloser, error) {
	b, ok := m.content[digest]
	if !ok {
		return nil, fmt.Errorf("no artifact %s", digest)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// story is a turn in a folder of its own.
type story struct {
	t       *testing.T
	dir     string
	store   *memory
	tracker *checkpoint.Tracker
	log     []event.Event
	calls   int
}

func begin(t *testing.T) *story {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &story{t: t, dir: dir, store: &memory{}}
	s.tracker = checkpoint.NewTracker(s.store, dir)
	return s
}

func (s *story) path(name string) string { return filepath.Join(s.dir, name) }

func (s *story) write(name, content string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) remove(name string) {
	s.t.Helper()
	if err := os.Remove(s.path(name)); err != nil {
		s.t.Fatal(err)
	}
}

// patch is a call that says it will write to names, and does what do does.
func (s *story) patch(do func(), names ...string) *event.FilesChanged {
	s.t.Helper()
	var paths []string
	for _, n := range names {
		paths = append(paths, s.path(n))
	}
	return s.call([]contract.Effect{contract.WriteEffect{Paths: paths}}, &event.Item{}, do)
}

func (s *story) command(do func()) *event.FilesChanged {
	s.t.Helper()
	return s.call([]contract.Effect{contract.ExecEffect{Argv: []string{"x"}}}, &event.Item{}, do)
}

func (s *story) call(effects []contract.Effect, item *event.Item, do func()) *event.FilesChanged {
	s.t.Helper()
	s.calls++
	id := event.CallID(fmt.Sprint("c", s.calls))
	kept, err := s.tracker.Before(s.t.Context(), id, effects, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.note(event.CallStarted{Call: id, Attempt: 1, Effects: event.EffectsOf(effects)})
	if kept != nil {
		s.note(*kept)
	}
	do()
	changed := s.tracker.After(s.t.Context(), id, item)
	if changed != nil {
		s.note(*changed)
	}
	return changed
}

func (s *story) note(b event.Body) {
	if len(s.log) == 0 {
		s.log = append(s.log, event.Event{Turn: "t1", Body: event.TurnStarted{}})
	}
	s.log = append(s.log, event.Event{Turn: "t1", Body: b})
}

// net is what a reader of the log finds, in the short form of [say].
func (s *story) net() string {
	s.t.Helper()
	list := s.read()
	return say(s.dir, list[0].Changes.Net())
}

func (s *story) read() []checkpoint.Record {
	s.t.Helper()
	list, err := checkpoint.Read(func(yield func(event.Event, error) bool) {
		for _, e := range s.log {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func say(dir string, net []checkpoint.File) string {
	var out []string
	for _, f := range net {
		s := fmt.Sprintf("%s %s→%s", checkpoint.Shown(dir, f.Path), f.Before.Kind, f.After.Kind)
		if f.From != "" {
			s += " from " + checkpoint.Shown(dir, f.From)
		}
		if f.ChangedOutside {
			s += " outside"
		}
		if f.Open {
			s += " open"
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func (s *story) diff() string {
	d := s.tracker.Diff(s.t.Context())
	if d == nil {
		return ""
	}
	return d.Diff
}

// heads are the lines of a diff that say what it does to which file.
func heads(diff string) string {
	var out []string
	for l := range strings.Lines(diff) {
		for _, p := range []string{"diff ", "new file", "deleted", "rename", "+", "-", "@@"} {
			if strings.HasPrefix(l, p) && !strings.HasPrefix(l, "+++") && !strings.HasPrefix(l, "---") {
				out = append(out, strings.TrimSpace(l))
			}
		}
	}
	return strings.Join(out, "|")
}

func TestNetOfATurn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		do        func(s *story)
		net, diff string
	}{
		{"an added file that grows is one added file", func(s *story) {
			s.patch(func() { s.write("a.txt", "foo\n") }, "a.txt")
			s.patch(func() { s.write("a.txt", "foo\nbar\n") }, "a.txt")
		}, "a.txt absent→file", "diff --git a/a.txt b/a.txt|new file mode 100644|@@ -0,0 +1,2 @@|+foo|+bar"},
		{"what was added and deleted is nothing", func(s *story) {
			s.patch(func() { s.write("a", "x\n") }, "a")
			s.patch(func() { s.remove("a") }, "a")
		}, "", ""},
		{"what was deleted and added again is an update", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() { s.remove("a") }, "a")
			s.patch(func() { s.write("a", "y\n") }, "a")
		}, "a file→file", "diff --git a/a b/a|@@ -1 +1 @@|-x|+y"},
		{"there and back is nothing", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() { s.write("a", "y\n") }, "a")
			s.patch(func() { s.write("a", "x\n") }, "a")
		}, "", ""},
		{"a call that changes nothing", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() {}, "a", "b")
		}, "", ""},
		{"moved twice, and changed", func(s *story) {
			s.write("a", "x\n")
			s.move("a", "b", "x\n")
			s.move("b", "c", "y\n")
		}, "a file→absent; c absent→file from a", "diff --git a/a b/c|@@ -1 +1 @@|-x|+y"},
		{"moved", func(s *story) {
			s.write("a", "x\n")
			s.move("a", "b", "x\n")
		}, "a file→absent; b absent→file from a", "diff --git a/a b/b|rename from a|rename to b"},
		{"moved and back", func(s *story) {
			s.write("a", "x\n")
			s.move("a", "b", "x\n")
			s.move("b", "a", "x\n")
		}, "", ""},
		{"a move onto a file: the one goes, the other changes", func(s *story) {
			s.write("a", "x\n")
			s.write("b", "y\n")
			s.move("a", "b", "x\n")
		}, "a file→absent; b file→file", "diff --git a/a b/a|deleted file mode 100644|@@ -1 +0,0 @@|-x|diff --git a/b b/b|@@ -1 +1 @@|-y|+x"},
		{"moved, and another in its place", func(s *story) {
			s.write("a", "x\n")
			s.move("a", "b", "x\n")
			s.patch(func() { s.write("a", "new\n") }, "a")
		}, "a file→file; b absent→file", "diff --git a/a b/a|@@ -1 +1 @@|-x|+new|diff --git a/b b/b|new file mode 100644|@@ -0,0 +1 @@|+x"},
		{"text over binary content", func(s *story) {
			s.write("a", "\x00\x01")
			s.patch(func() { s.write("a", "text\n") }, "a")
		}, "a file→file", "diff --git a/a b/a"},
		{"a link is written through", func(s *story) {
			s.write("real", "x\n")
			s.link("real", "l")
			s.patch(func() { s.write("l", "y\n") }, "l")
		}, "real file→file", "diff --git a/real b/real|@@ -1 +1 @@|-x|+y"},
		{"a link is deleted, what it leads to is not", func(s *story) {
			s.write("real", "x\n")
			s.link("real", "l")
			s.patch(func() { s.remove("l") }, "l")
		}, "l link→absent", "diff --git a/l b/l|deleted file mode 120000|@@ -1 +0,0 @@|-real"},
		{"a command formats what was patched", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() { s.write("a", "y\n") }, "a")
			s.command(func() { s.write("a", "formatted\n") })
		}, "a file→file", "diff --git a/a b/a|@@ -1 +1 @@|-x|+formatted"},
		{"a command changes what nobody patched: not seen", func(s *story) {
			s.write("a", "x\n")
			s.command(func() { s.write("a", "y\n") })
		}, "", ""},
		{"a person writes between two patches", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() { s.write("a", "y\n") }, "a")
			s.write("a", "mine\n")
			s.patch(func() { s.write("a", "mine and y\n") }, "a")
		}, "a file→file outside", "diff --git a/a b/a|@@ -1 +1 @@|-x|+mine and y"},
		{"a person writes, then a command runs that has nothing to do with it", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() { s.write("a", "y\n") }, "a")
			s.write("a", "mine\n")
			s.command(func() {})
		}, "a file→file outside", "diff --git a/a b/a|@@ -1 +1 @@|-x|+mine"},
		{"the mode alone", func(s *story) {
			s.write("a", "x\n")
			s.patch(func() { s.chmod("a", 0o755) }, "a")
		}, "a file→file", "diff --git a/a b/a"},
		{"sorted by path", func(s *story) {
			s.patch(func() { s.write("z", "1\n"); s.write("a/b", "2\n") }, "z", "a/b")
		}, "a/b absent→file; z absent→file", "diff --git a/a/b b/a/b|new file mode 100644|@@ -0,0 +1 @@|+2|diff --git a/z b/z|new file mode 100644|@@ -0,0 +1 @@|+1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.note(event.TurnStarted{})
			tc.do(s)
			if got := s.net(); got != tc.net {
				t.Errorf("net is %q, want %q", got, tc.net)
			}
			if got := heads(s.diff()); got != tc.diff {
				t.Errorf("diff is\n%s, want\n%s", got, tc.diff)
			}
		})
	}
}

// move is a call that moves a file and says so.
func (s *story) move(from, to, content string) {
	s.t.Helper()
	effects := []contract.Effect{contract.WriteEffect{Paths: []string{s.path(from), s.path(to)}}}
	item := &event.Item{Changes: []event.FileChange{{Path: s.path(to), MovedFrom: s.path(from)}}}
	s.call(effects, item, func() {
		s.write(to, content)
		s.remove(from)
	})
	if c := item.Changes[0]; c.After != digest(content) || c.Before == "" {
		s.t.Errorf("the item of a move says %q became %q", c.Before, c.After)
	}
}

func (s *story) link(target, name string) {
	s.t.Helper()
	if err := os.Symlink(target, s.path(name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) chmod(name string, mode os.FileMode) {
	s.t.Helper()
	if err := os.Chmod(s.path(name), mode); err != nil {
		s.t.Fatal(err)
	}
}

// What stood there is in the store before the call runs, and what it made of it afterwards.
func TestContentIsKept(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "before\n")
	s.patch(func() {
		if string(s.store.content[digest("before\n")]) != "before\n" {
			t.Error("the call runs and what it changes is not kept")
		}
		s.write("a", "after\n")
		s.write("dir/sub/new", "new\n")
	}, "a", "dir/sub/new")
	for _, want := range []string{"after\n", "new\n"} {
		if string(s.store.content[digest(want)]) != want {
			t.Errorf("%q is not kept", want)
		}
	}
	net := s.read()[0].Changes.Net()
	if len(net) != 2 || net[1].NewFolder != s.path("dir") {
		t.Errorf("net = %+v, want the first folder that was made", net)
	}
}

// A store that takes nothing: the call must not start.
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "x\n")
	s.store.full = true
	_, err := s.tracker.Before(t.Context(), "c", []contract.Effect{contract.WriteEffect{Paths: []string{s.path("a")}}}, nil)
	if err == nil || !strings.Contains(err.Error(), s.path("a")) {
		t.Errorf("err = %v, want one that names the file", err)
	}
}

// What can't be kept is said to be so, and its changes are seen all the same.
func TestHugeFile(t *testing.T) {
	t.Parallel()
	s := begin(t)
	grow := func(size int64) {
		if err := os.Truncate(s.path("big"), size); err != nil {
			t.Fatal(err)
		}
	}
	s.write("big", "")
	grow(checkpoint.MaxFileBytes + 1)
	s.patch(func() { grow(checkpoint.MaxFileBytes + 2) }, "big")
	net := s.read()[0].Changes.Net()
	if len(net) != 1 || net[0].Before.Kept || !strings.Contains(net[0].Before.Why, "16 MiB") {
		t.Errorf("net = %+v", net)
	}
	if d := s.diff(); !strings.Contains(d, "Binary files a/big and b/big differ") {
		t.Errorf("diff = %q", d)
	}
}

// Pipes are not opened: whoever opened one would wait for ever.
func TestOddPlaces(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("dir/x", "1")
	s.write("file", "1")
	if changed := s.patch(func() {}, "dir", "file/below", "", "dir/../file"); len(changed.Changes) > 0 {
		t.Errorf("changed = %+v", changed)
	}
	if got := checkpoint.Inspect(s.path("dir")); got.Kind != event.FileOther {
		t.Errorf("a folder is %+v", got.FileState)
	}
	if got := checkpoint.Inspect(s.path("file/below")); got.Kind != event.FileAbsent {
		t.Errorf("below a file is %+v", got.FileState)
	}
}

// A file has one name, whatever links its path leads over.
func TestFoldersThatAreLinks(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("real/a", "x\n")
	s.link("real", "linked")
	s.patch(func() { s.write("linked/a", "y\n") }, "linked/a")
	s.patch(func() { s.write("real/a", "z\n") }, "real/a")
	if got := s.net(); got != "real/a file→file" {
		t.Errorf("net = %q", got)
	}
	if got, folder := checkpoint.Resolve(s.path("linked/new/deep/f")); got != s.path("real/new/deep/f") || folder != s.path("real/new") {
		t.Errorf("resolved to %s, first new folder %s", got, folder)
	}
}

// A host that died between the change and its record left what was kept. What was said to come counts as having come.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		wanted string
		want   string
	}{
		{"what was to come is known", "new\n", "a file→file open"},
		{"what was to come is not known", "", "a file→unread open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.write("a", "old\n")
			item := &contract.FileChangeItem{Changes: []contract.FileChange{{Path: s.path("a"), Kind: contract.ChangeUpdate}}}
			if tc.wanted != "" {
				item.Changes[0].AfterSHA256 = digest(tc.wanted)
			}
			kept, err := s.tracker.Before(t.Context(), "c1", []contract.Effect{contract.WriteEffect{Paths: []string{s.path("a")}}}, item)
			if err != nil {
				t.Fatal(err)
			}
			s.note(*kept)
			if got := s.net(); got != tc.want {
				t.Errorf("net = %q, want %q", got, tc.want)
			}
			if tc.wanted != "" {
				s.write("a", tc.wanted)
				if f := s.read()[0].Changes.Net()[0]; !checkpoint.Matches(f.After, checkpoint.Inspect(s.path("a")).FileState) {
					t.Errorf("what has come does not fit what was to come: %+v", f.After)
				}
			}
		})
	}
}

func TestUndoneAndRedone(t *testing.T) {
	t.Parallel()
	x, y := event.FileState{Kind: event.FileRegular, SHA256: "x"}, event.FileState{Kind: event.FileRegular, SHA256: "y"}
	change := func(before, after event.FileState, undoes ...event.TurnID) event.Body {
		return event.FilesChanged{Undoes: undoes, Changes: []event.ChangedFile{{Path: "/a", Before: before, After: after}}}
	}
	log := []event.Event{
		{Turn: "t1", Body: event.TurnStarted{}},
		{Turn: "t2", Body: event.TurnStarted{}},
		{Turn: "t2", Body: change(x, y)},
		{Turn: "t2", Body: event.TurnStarted{Resumed: true}},
		{Turn: "u1", Body: change(y, x, "t2")},
	}
	undone := func() (out string) {
		list, err := checkpoint.Read(func(yield func(event.Event, error) bool) {
			for _, e := range log {
				if !yield(e, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			out += fmt.Sprintf("%s %d %v ", r.ID, r.Number, r.Undone)
		}
		return strings.TrimSpace(out)
	}
	if got := undone(); got != "t1 1 false t2 2 true u1 0 false" {
		t.Errorf("after an undo: %s", got)
	}
	log = append(log, event.Event{Turn: "u2", Body: change(x, y, "u1")})
	if got := undone(); got != "t1 1 false t2 2 false u1 0 true u2 0 false" {
		t.Errorf("after the undo of the undo: %s", got)
	}
	log = append(log, event.Event{Turn: "u3", Body: change(y, x, "t2")})
	if got := undone(); got != "t1 1 false t2 2 true u1 0 true u2 0 false u3 0 false" {
		t.Errorf("after another undo: %s", got)
	}
}

// What the conversation does not know of any more keeps its changes, and has no number.
func TestReverted(t *testing.T) {
	t.Parallel()
	log := []event.Event{
		{Seq: 1, Turn: "t1", Body: event.TurnStarted{}}, {Seq: 2, Turn: "t2", Body: event.TurnStarted{}},
		{Seq: 3, Turn: "t2", Body: event.FilesChanged{Changes: []event.ChangedFile{{Path: "/a", After: event.FileState{Kind: event.FileRegular}}}}},
		{Seq: 4, Body: event.ThreadReverted{Before: "t2", From: 2, Through: 1}},
		{Seq: 5, Turn: "t3", Body: event.TurnStarted{}},
	}
	list, err := checkpoint.Read(func(yield func(event.Event, error) bool) {
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil || len(list) != 3 || list[0].Number != 1 || list[1].Number != 0 || !list[1].Turn || list[2].Number != 2 || len(list[1].Changes.Net()) != 1 {
		t.Errorf("records = %+v, %v", list, err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	list := []checkpoint.Record{{ID: "01ab-1", Number: 1}, {ID: "01ab-2"}, {ID: "01cd", Number: 2}}
	for which, want := range map[string]int{"1": 0, "2": 2, "01cd": 2, "01AB-2": 1, "01ab": -1, "7": -1, "": -1, "x": -1} {
		if got, err := checkpoint.Find(list, which); got != want || (err != nil) != (want < 0) {
			t.Errorf("%q: %d, %v, want %d", which, got, err, want)
		}
	}
}

// A glance must not take what was written a moment ago for what was written before.
func TestSameSizeSameMoment(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "0")
	s.patch(func() { s.write("a", "1") }, "a")
	at := time.Now()
	for i := range 20 {
		s.command(func() {
			s.write("a", fmt.Sprint(i%2))
			if err := os.Chtimes(s.path("a"), at, at); err != nil { // a clock that stands still
				t.Fatal(err)
			}
		})
		if net := s.net(); (net == "") != (i%2 == 0) {
			t.Fatalf("round %d: net = %q", i, net)
		}
	}
}
