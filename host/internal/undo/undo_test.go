package undo_test

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
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/undo"
	"github.com/gantry-agent/gantry/sdk/contract"
	"pgregory.net/rapid"
)

// memory is a store and a journal.
type memory struct {
	content map[string][]byte
	log     []event.Event
	barrier error
	// before runs when the journal has the undo on the disk, and no file was touched yet.
	before func()
}

func (m *memory) PutArtifact(_ context.Context, _, _ string, r io.Reader) (contract.ArtifactRef, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return contract.ArtifactRef{}, err
	}
	sum := sha256.Sum256(b)
	id := hex.EncodeToString(sum[:])
	if m.content == nil {
		m.content = map[string][]byte{}
	}
	m.content[id] = b
	return contract.ArtifactRef{SHA256: id}, nil
}

func (m *memory) Artifact(_ context.Context, digest string) (io.ReadCloser, error) {
	b, ok := m.content[digest]
	if !ok {
		return nil, fmt.Errorf("no artifact %s", digest)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memory) Publish(_ context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error) {
	for _, b := range bodies {
		m.log = append(m.log, event.Event{Turn: turn, Seq: uint64(len(m.log) + 1), Body: b})
	}
	return uint64(len(m.log)), nil
}

func (m *memory) Barrier(context.Context, uint64) error {
	if f := m.before; f != nil {
		m.before = nil
		f()
	}
	return m.barrier
}

// story is a folder, and a thread that works in it.
type story struct {
	t     testing.TB
	dir   string
	store *memory
	turns int
}

func begin(t testing.TB) *story {
	dir, err := os.MkdirTemp("", "u")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return &story{t: t, dir: dir, store: &memory{}}
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

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// turn is a turn of calls that each write to names.
func (s *story) turn(calls ...deed) event.TurnID {
	s.t.Helper()
	s.turns++
	id := event.TurnID(fmt.Sprint("turn-", s.turns))
	s.store.log = append(s.store.log, event.Event{Turn: id, Body: event.TurnStarted{}})
	tracker := checkpoint.NewTracker(s.store, s.dir)
	for i, c := range calls {
		names, do := c()
		call := event.CallID(fmt.Sprint("c", i))
		var paths []string
		for _, n := range names {
			paths = append(paths, s.path(n))
		}
		kept, err := tracker.Before(s.t.Context(), call, []contract.Effect{contract.WriteEffect{Paths: paths}}, nil)
		s.must(err)
		s.store.log = append(s.store.log, event.Event{Turn: id, Body: *kept})
		do()
		s.store.log = append(s.store.log, event.Event{Turn: id, Body: *tracker.After(s.t.Context(), call, &event.Item{})})
	}
	return id
}

// deed says which names a call writes to, and does it.
type deed func() (names []string, do func())

// call is what a call writes, and where.
func call(do func(), names ...string) deed {
	return func() ([]string, func()) { return names, do }
}

func (s *story) read() []checkpoint.Record {
	s.t.Helper()
	list, err := checkpoint.Read(func(yield func(event.Event, error) bool) {
		for _, e := range s.store.log {
			if !yield(e, nil) {
				return
			}
		}
	})
	s.must(err)
	return list
}

func (s *story) record(id event.TurnID) checkpoint.Record {
	s.t.Helper()
	for _, r := range s.read() {
		if r.ID == id {
			return r
		}
	}
	s.t.Fatalf("the log does not know %s", id)
	return checkpoint.Record{}
}

// undo takes a turn or an undo back, and returns the undo's name.
func (s *story) undo(id event.TurnID, force bool) (event.TurnID, error) {
	s.t.Helper()
	choice, err := undo.Named(s.read(), string(id))
	s.must(err)
	r, err := undo.Execute(s.t.Context(), s.store, s.store, choice, undo.Options{Force: force})
	return r.Undo, err
}

// tree is all that stands in the folder: names, modes, content, targets, and empty folders.
func (s *story) tree() string {
	s.t.Helper()
	var out []string
	s.must(filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == s.dir {
			return err
		}
		name, _ := filepath.Rel(s.dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case d.IsDir():
			name += "/"
		case info.Mode()&os.ModeSymlink != 0:
			content, err = os.Readlink(path)
		default:
			var b []byte
			b, err = os.ReadFile(path)
			content = string(b)
		}
		out = append(out, fmt.Sprintf("%s %v %q", name, info.Mode(), content))
		return err
	}))
	return strings.Join(out, "\n")
}

func (s *story) is(want string) {
	s.t.Helper()
	if got := s.tree(); got != want {
		s.t.Fatalf("there is\n%s\nwant\n%s", got, want)
	}
}

// What a turn did is taken back, to the last bit and folder; and that is taken back.
func TestUndoAndRedo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		begin func(s *story)
		make  func(s *story) []deed
	}{
		{name: "an update", begin: func(s *story) { s.write("a", "x\n") }, make: func(s *story) []deed {
			return []deed{call(func() { s.write("a", "y\n") }, "a"), call(func() { s.write("a", "z\n") }, "a")}
		}},
		{name: "added, in new folders", begin: func(*story) {}, make: func(s *story) []deed {
			return []deed{
				call(func() { s.write("d/e/a", "1"); s.write("d/e/b", "2") }, "d/e/a", "d/e/b"),
				call(func() { s.write("d/later", "3") }, "d/later"),
			}
		}},
		{name: "deleted, with its mode", begin: func(s *story) { s.write("a", "x\n"); s.must(os.Chmod(s.path("a"), 0o750)) }, make: func(s *story) []deed {
			return []deed{call(func() { s.must(os.Remove(s.path("a"))) }, "a")}
		}},
		{name: "deleted with its folder", begin: func(s *story) { s.write("d/a", "x\n") }, make: func(s *story) []deed {
			return []deed{call(func() { s.must(os.RemoveAll(s.path("d"))) }, "d/a")}
		}},
		{name: "moved and changed", begin: func(s *story) { s.write("a", "x\n") }, make: func(s *story) []deed {
			return []deed{call(func() { s.write("n/b", "y\n"); s.must(os.Remove(s.path("a"))) }, "a", "n/b")}
		}},
		{name: "binary and empty content", begin: func(s *story) { s.write("a", "\x00\xff"); s.write("b", "") }, make: func(s *story) []deed {
			return []deed{call(func() { s.write("a", ""); s.write("b", "\x00") }, "a", "b")}
		}},
		{name: "the mode alone", begin: func(s *story) { s.write("a", "x\n") }, make: func(s *story) []deed {
			return []deed{call(func() { s.must(os.Chmod(s.path("a"), 0o700)) }, "a")}
		}},
		{name: "links", begin: func(s *story) { s.write("real", "x\n"); s.must(os.Symlink("real", s.path("l"))); s.write("f", "f") }, make: func(s *story) []deed {
			return []deed{
				call(func() { s.write("l", "through\n") }, "l"),
				call(func() {
					s.must(os.Remove(s.path("l")))
					s.must(os.Symlink("elsewhere", s.path("l")))
					s.must(os.Remove(s.path("f")))
					s.must(os.Symlink("real", s.path("f")))
				}, "l", "f"),
			}
		}},
		{name: "a file with two names stays one file", begin: func(s *story) { s.write("a", "long before\n"); s.must(os.Link(s.path("a"), s.path("other"))) }, make: func(s *story) []deed {
			return []deed{call(func() { s.write("a", "y\n") }, "a")}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			tc.begin(s)
			before := s.tree()
			turn := s.turn(tc.make(s)...)
			after := s.tree()
			if before == after {
				t.Fatal("the turn changed nothing")
			}
			first, err := s.undo(turn, false)
			s.must(err)
			s.is(before)
			second, err := s.undo(first, false)
			s.must(err)
			s.is(after)
			_, err = s.undo(second, false)
			s.must(err)
			s.is(before)
		})
	}
}

// Files that are others by now are named, and nothing is touched; force overrules that and keeps what it replaces.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "1\n")
	s.write("b", "1\n")
	turn := s.turn(call(func() { s.write("a", "2\n"); s.write("b", "2\n"); s.write("c", "2\n") }, "a", "b", "c"))
	s.write("b", "mine\n")
	s.must(os.Remove(s.path("c")))
	now := s.tree()
	_, err := s.undo(turn, false)
	refused, ok := errors.AsType[*undo.RefusedError](err)
	if !ok || len(refused.Steps) != 1 || refused.Steps[0].Path != s.path("b") || refused.Steps[0].Obstacle != undo.Changed {
		t.Fatalf("err = %v, want b alone to be named: what is gone already is as it was", err)
	}
	s.is(now)
	first, err := s.undo(turn, true)
	s.must(err)
	if got := s.tree(); strings.Contains(got, "mine") || strings.Contains(got, "2") {
		t.Fatalf("after force there is\n%s", got)
	}
	_, err = s.undo(first, false)
	s.must(err)
	s.is(now)
}

func TestObstacles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		spoil  func(s *story)
		want   undo.Obstacle
		reason string
		forced bool // force puts it back
	}{
		{"a later change", func(s *story) { s.write("d/a", "3") }, undo.Changed, "changed since", true},
		{"a later mode", func(s *story) { s.must(os.Chmod(s.path("d/a"), 0o600)) }, undo.Changed, "changed since", true},
		{"the content is gone from the store", func(s *story) { s.store.content = nil }, undo.NotStored, "no longer in the store", false},
		{"the content in the store is damaged", func(s *story) {
			for id := range s.store.content {
				s.store.content[id] = []byte("rot")
			}
		}, undo.NotStored, "damaged", false},
		{"a folder in its place", func(s *story) {
			s.must(os.Remove(s.path("d/a")))
			s.must(os.Mkdir(s.path("d/a"), 0o755))
		}, undo.Blocked, "a folder", false},
		{"its folder is a link to somewhere else", func(s *story) {
			s.write("outside/a", "2")
			s.must(os.RemoveAll(s.path("d")))
			s.must(os.Symlink("outside", s.path("d")))
		}, undo.Blocked, "its folder is now", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.write("d/a", "1")
			turn := s.turn(call(func() { s.write("d/a", "2") }, "d/a"))
			tc.spoil(s)
			now := s.tree()
			_, err := s.undo(turn, false)
			refused, ok := errors.AsType[*undo.RefusedError](err)
			if !ok || refused.Steps[0].Obstacle != tc.want || !strings.Contains(err.Error(), tc.reason) || !strings.Contains(err.Error(), "--force") {
				t.Fatalf("err = %v, want %q with %q", err, tc.want, tc.reason)
			}
			s.is(now)
			_, err = s.undo(turn, true)
			if _, refused := errors.AsType[*undo.RefusedError](err); err != nil && (tc.forced || !refused) {
				t.Fatal(err)
			}
			if put := s.tree() != now; put != tc.forced {
				t.Errorf("force put it back: %v, want %v\n%s", put, tc.forced, s.tree())
			}
		})
	}
}

// A person wrote between two patches of the turn: that must not be lost without a word.
func TestMixed(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "1")
	turn := s.turn(call(func() { s.write("a", "2") }, "a"), func() ([]string, func()) {
		s.write("a", "mine")
		return []string{"a"}, func() { s.write("a", "mine and 3") }
	})
	_, err := s.undo(turn, false)
	if refused, ok := errors.AsType[*undo.RefusedError](err); !ok || refused.Steps[0].Obstacle != undo.Mixed {
		t.Fatalf("err = %v", err)
	}
}

// A failure on the way leaves every file as it was.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for _, n := range []string{"a", "b", "d/c", "z"} {
		s.write(n, "1")
	}
	turn := s.turn(call(func() {
		s.write("a", "2")
		s.write("b", "2")
		s.must(os.RemoveAll(s.path("d")))
		s.write("new/x", "2")
		s.write("z", "2")
	}, "a", "b", "d/c", "new/x", "z"))
	now := s.tree()
	s.store.before = func() { s.write("z", "9") } // somebody writes at the last moment
	_, err := s.undo(turn, false)
	if err == nil || !strings.Contains(err.Error(), "no file was changed") || !strings.Contains(err.Error(), s.path("z")) {
		t.Fatalf("err = %v", err)
	}
	s.is(strings.Replace(now, `z -rw-r--r-- "2"`, `z -rw-r--r-- "9"`, 1))
	// Nothing was taken back, and the log says so.
	if r := s.record(turn); r.Undone {
		t.Error("the turn counts as undone")
	}
	s.write("z", "2")
	_, err = s.undo(turn, false)
	s.must(err)
}

// A journal that does not take the undo: nothing is touched.
func TestJournalFirst(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "1")
	turn := s.turn(call(func() { s.write("a", "2") }, "a"))
	now := s.tree()
	s.store.barrier = errors.New("the disk is full")
	if _, err := s.undo(turn, false); err == nil || !strings.Contains(err.Error(), "no file was restored") {
		t.Errorf("err = %v", err)
	}
	s.is(now)
}

// An undo that was killed: what it had done stays, the next one does the rest and removes what it left beside.
func TestInterruptedUndoContinues(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.write("a", "1")
	s.write("b", "1")
	before := s.tree()
	turn := s.turn(call(func() { s.write("a", "2"); s.write("b", "2"); s.write("n/c", "2") }, "a", "b", "n/c"))
	after := s.tree()
	// As it looks behind a kill: the journal has the beginning, a was put back, b not, and something lies beside it.
	first, err := s.undo(turn, false)
	s.must(err)
	s.store.log = s.store.log[:len(s.store.log)-1]
	s.write("b", "2")
	s.write("n/c", "2")
	s.write(".gantry-undo-"+string(first)+"-1-new", "1")
	if s.record(first).Ended || s.record(turn).Undone {
		t.Fatal("an undo that was cut off counts as one")
	}
	second, err := s.undo(turn, false)
	s.must(err)
	s.is(before)
	// What the first one had put back is the second one's, too.
	_, err = s.undo(second, false)
	s.must(err)
	s.is(after)
}

// Whatever turns do to files, taking them back one after the other leads to where they came from, and taking that back to where
// they had led.
func TestAnythingIsTakenBack(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "d/c", "d/e/f", "g"}
	rapid.Check(t, func(rt *rapid.T) {
		s := begin(t)
		defer os.RemoveAll(s.dir)
		content := rapid.SampledFrom([]string{"", "x\n", "y\n", "\x00", "long\nlong\n"})
		mode := rapid.SampledFrom([]os.FileMode{0o644, 0o755, 0o600})
		acts := func() deed {
			touched := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(rt, "touched")
			type act struct {
				kind, content string
				mode          os.FileMode
			}
			var deeds []act
			for range touched {
				deeds = append(deeds, act{
					rapid.SampledFrom([]string{"write", "write", "remove", "link", "nothing"}).Draw(rt, "deed"),
					content.Draw(rt, "content"), mode.Draw(rt, "mode"),
				})
			}
			return call(func() {
				for i, name := range touched {
					switch d := deeds[i]; d.kind {
					case "write":
						if info, err := os.Lstat(s.path(name)); err == nil && info.Mode()&os.ModeSymlink != 0 {
							s.must(os.Remove(s.path(name)))
						}
						s.write(name, d.content)
						s.must(os.Chmod(s.path(name), d.mode))
					case "remove":
						_ = os.Remove(s.path(name))
					case "link":
						_ = os.Remove(s.path(name))
						s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
						s.must(os.Symlink(fmt.Sprintf("nowhere-%x", d.content), s.path(name)))
					}
				}
			}, touched...)
		}
		for _, n := range names[:rapid.IntRange(0, len(names)).Draw(rt, "there")] {
			s.write(n, content.Draw(rt, "content"))
		}
		var turns []event.TurnID
		trees := []string{s.files()}
		for range rapid.IntRange(1, 2).Draw(rt, "turns") {
			var calls []deed
			for range rapid.IntRange(1, 3).Draw(rt, "calls") {
				calls = append(calls, acts())
			}
			turns = append(turns, s.turn(calls...))
			trees = append(trees, s.files())
		}
		var undos []event.TurnID
		for i := len(turns) - 1; i >= 0; i-- {
			u, err := s.undo(turns[i], false)
			if err != nil {
				rt.Fatal(err)
			}
			if got := s.files(); got != trees[i] {
				rt.Fatalf("turn %d taken back:\n%s\nwant\n%s", i+1, got, trees[i])
			}
			undos = append(undos, u)
		}
		for i, u := range slices.Backward(undos) {
			if u == "" { // there was nothing to do
				continue
			}
			if _, err := s.undo(u, false); err != nil {
				rt.Fatal(err)
			}
			if got, want := s.files(), trees[len(trees)-1-i]; got != want {
				rt.Fatalf("the undo of turn %d taken back:\n%s\nwant\n%s", len(turns)-i, got, want)
			}
		}
	})
}

// files is the tree without folders: a folder whose files had gone in the turn that made it may stay.
func (s *story) files() string {
	var out []string
	for l := range strings.SplitSeq(s.tree(), "\n") {
		if name, _, _ := strings.Cut(l, " "); !strings.HasSuffix(name, "/") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func TestChoices(t *testing.T) {
	t.Parallel()
	s := begin(t)
	if _, err := undo.Last(s.read()); !errors.Is(err, undo.ErrNothing) {
		t.Errorf("nothing to undo: %v", err)
	}
	if _, err := undo.Redo(s.read()); !errors.Is(err, undo.ErrNoUndo) {
		t.Errorf("nothing to redo: %v", err)
	}
	first := s.turn(call(func() { s.write("a", "1") }, "a"))
	second := s.turn(call(func() { s.write("a", "2") }, "a"))
	third := s.turn(call(func() {}, "a")) // changes nothing
	is := func(what string, c undo.Choice, err error, want ...event.TurnID) {
		t.Helper()
		if err != nil || !slices.Equal(c.Undoes, want) {
			t.Errorf("%s: %v, %v, want %v", what, c.Undoes, err, want)
		}
	}
	last, err := undo.Last(s.read())
	is("last", last, err, second)
	u, err := s.undo(second, false)
	s.must(err)
	last, err = undo.Last(s.read())
	is("last behind an undo", last, err, first)
	redo, err := undo.Redo(s.read())
	is("redo", redo, err, u)
	if _, err := undo.Named(s.read(), string(second)); err == nil || !strings.Contains(err.Error(), "already been undone") {
		t.Errorf("undone twice: %v", err)
	}
	_, err = s.undo(u, false)
	s.must(err)
	if _, err := undo.Redo(s.read()); !errors.Is(err, undo.ErrNoUndo) {
		t.Errorf("an undo of an undo is nothing to redo: %v", err)
	}
	is("last behind the undo of an undo", must(undo.Last(s.read())), nil, second)
	// All from a turn on, with what was undone and redone in between.
	all, err := undo.From(s.read(), first)
	is("from the first on", all, err, first, second, third)
	if _, err := undo.Execute(t.Context(), s.store, s.store, all, undo.Options{}); err != nil {
		t.Fatal(err)
	}
	s.is("")
}

func must(c undo.Choice, err error) undo.Choice {
	if err != nil {
		panic(err)
	}
	return c
}
