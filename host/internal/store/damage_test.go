package store_test

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"pgregory.net/rapid"
)

// prefix reads events up to an error.
func prefix(events iter.Seq2[event.Event, error]) (out []event.Event, err error) {
	for e, err := range events {
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

// A thread of 31 events is damaged. Reading it ends where the damage begins, and says so; other threads are not touched; what is
// whole becomes a thread of its own.
func TestDamagedThread(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage string
		good   int
		says   string
		gap    bool // counting finds it
		end    bool // the thread does not end where it should
	}{
		"a byte of a body":         {`UPDATE events SET body = replace(body, 'bug 2', 'bug 3') WHERE thread_id = 'a' AND seq = 13`, 12, "event 13 is not what was written", false, false},
		"a kind":                   {`UPDATE events SET kind = 'history.addee' WHERE thread_id = 'a' AND seq = 4`, 3, "event 4 is not what was written", false, false},
		"a time":                   {`UPDATE events SET time = time + 1 WHERE thread_id = 'a' AND seq = 31`, 30, "event 31 is not what was written", false, false},
		"two events change places": {`UPDATE events SET seq = 1000 - seq WHERE thread_id = 'a' AND seq = 7; UPDATE events SET seq = 7 WHERE thread_id = 'a' AND seq = 8; UPDATE events SET seq = 8 WHERE thread_id = 'a' AND seq = 993`, 6, "event 7 is not what was written", false, false},
		"no JSON, from before there were checksums": {`UPDATE events SET sum = -1, body = substr(body, 1, 9) WHERE thread_id = 'a' AND seq = 13`, 12, "event 13 is not what was written", false, false},
		"events of the middle":                      {`DELETE FROM events WHERE thread_id = 'a' AND seq IN (15, 16)`, 14, "event 15 is missing", true, false},
		"the first event":                           {`DELETE FROM events WHERE thread_id = 'a' AND seq = 1`, 0, "event 1 is missing", true, false},
		"the last events":                           {`DELETE FROM events WHERE thread_id = 'a' AND seq > 28`, 28, "event 29 is missing", true, true},
		"all events":                                {`DELETE FROM events WHERE thread_id = 'a'`, 0, "event 1 is missing", true, true},
		"the number in the listing":                 {`UPDATE threads SET seq = 20 WHERE id = 'a'`, 31, "the listing says that it ends with event 20, but it ends with event 31", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := storetest.Config(t)
			s := openAt(t, cfg)
			a, b := storetest.Story("a", 3), storetest.Story("b", 3)
			for i := range a {
				mustAppend(t, s, a[i], b[i])
			}
			mustBarrier(t, s, b)
			db := storetest.SQL(t, cfg)
			for statement := range strings.SplitSeq(test.damage, ";") {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}

			check := func(what string, events iter.Seq2[event.Event, error], n int) {
				t.Helper()
				got, err := prefix(events)
				if d, ok := errors.AsType[*store.DamageError](err); !ok || int(d.Good) != test.good || d.Last != 31 || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s end with %v", what, err)
				}
				if len(got) != n || n > 0 && !reflect.DeepEqual(got, a[:n]) {
					t.Errorf("%s: %d come before the damage, want %d as they were", what, len(got), n)
				}
			}
			check("events", s.Events(t.Context(), "a", 0), test.good)
			n := test.good
			if test.end {
				n = 0 // nobody begins what can't be gone on with
			}
			check("what counts", s.EffectiveEvents(t.Context(), "a", 0), n)
			if test.good > 0 { // what comes before can be read alone
				if got, err := prefix(s.EffectiveEvents(t.Context(), "a", uint64(test.good))); err != nil || len(got) != test.good {
					t.Errorf("up to the damage: %d events, %v", len(got), err)
				}
			}
			if got, err := prefix(s.Events(t.Context(), "b", 0)); err != nil || !reflect.DeepEqual(got, b) {
				t.Errorf("another thread: %d events, %v", len(got), err)
			}
			gaps, err := s.IncompleteThreads(t.Context())
			if want := test.gap; err != nil || slices.Contains(gaps, "a") != want || slices.Contains(gaps, "b") {
				t.Errorf("counting finds %q, %v", gaps, err)
			}
			c, err := s.Check(t.Context(), "a")
			if err != nil || c.Events != test.good || c.Intact() || !strings.Contains(c.Damage.Error(), "; next: ") {
				t.Errorf("check: %+v, %v", c, err)
			}
			if c, err := s.Check(t.Context(), "b"); err != nil || c.Events != 31 || !c.Intact() {
				t.Errorf("check of another thread: %+v, %v", c, err)
			}

			if test.good > 0 {
				err := s.Recover(t.Context(), "a", uint64(test.good), "c", func(standing iter.Seq2[event.Event, error]) ([]event.Event, error) {
					got, err := prefix(standing)
					if err != nil || len(got) != test.good {
						t.Errorf("%d events of the copy count, %v", len(got), err)
					}
					return []event.Event{{Thread: "c", Seq: uint64(test.good) + 1, Time: time.Unix(7, 0).UTC(), Body: event.ThreadNamed{Name: "rescued"}}}, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				got := stored(t, s, "c", 0)
				if len(got) != test.good+1 || got[test.good].Body.(event.ThreadNamed).Name != "rescued" {
					t.Fatalf("%d events were recovered", len(got))
				}
				for i, e := range got[:test.good] {
					if e.Thread = "a"; !reflect.DeepEqual(e, a[i]) {
						t.Errorf("event %d was recovered as %+v", i+1, e)
					}
				}
				if c, err := s.Check(t.Context(), "c"); err != nil || !c.Intact() {
					t.Errorf("what was recovered: %+v, %v", c, err)
				}
			}
			if _, err := s.Delete(t.Context(), "a"); err != nil {
				t.Errorf("the damaged thread can't be removed: %v", err)
			}
			if gaps, err := s.IncompleteThreads(t.Context()); err != nil || len(gaps) > 0 {
				t.Errorf("afterwards counting finds %q, %v", gaps, err)
			}
		})
	}
}

// Damage of what does not count any more keeps nobody from going on.
func TestDamageOfIneffectiveEvents(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	w := newWriter(t, s, "a")
	w.say("t1", "one")
	at := w.compact("t2", event.StatusCompleted)
	w.say("t3", "three")
	if _, err := storetest.SQL(t, cfg).Exec(`DELETE FROM events WHERE thread_id = 'a' AND seq = 3`); err != nil {
		t.Fatal(err)
	}
	got, err := prefix(s.EffectiveEvents(t.Context(), "a", 0))
	if err != nil || len(got) != int(w.seq-at+1) {
		t.Errorf("%d events count, %v", len(got), err)
	}
	if c, err := s.Check(t.Context(), "a"); err != nil || c.Damage == nil || c.Damage.Good != 2 {
		t.Errorf("check: %+v, %v", c, err)
	}
}

// What was taken back does not come back because the row is gone that says so.
func TestLostReverts(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	w := newWriter(t, s, "a")
	w.say("t1", "one")
	w.say("t2", "two")
	w.tell(event.ThreadReverted{Before: "t2", From: w.from["t2"], Through: w.from["t2"] - 1, Turns: 1})
	w.say("t3", "three")
	if _, err := prefix(s.EffectiveEvents(t.Context(), "a", 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := storetest.SQL(t, cfg).Exec(`DELETE FROM reverts`); err != nil {
		t.Fatal(err)
	}
	if got, err := prefix(s.EffectiveEvents(t.Context(), "a", 0)); !errors.As(err, new(*store.DamageError)) {
		t.Errorf("%d events count, %v", len(got), err)
	}
	// What is derived is made anew.
	none := func(iter.Seq2[event.Event, error]) ([]event.Event, error) { return nil, nil }
	if err := s.Recover(t.Context(), "a", w.seq, "b", none); err != nil {
		t.Fatal(err)
	}
	if got, err := prefix(s.EffectiveEvents(t.Context(), "b", 0)); err != nil || len(got) >= int(w.seq) {
		t.Errorf("of the copy %d events count, %v", len(got), err)
	}
}

// A thread that is deleted while it is read is not damaged.
func TestDeletedWhileItIsRead(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	mustAppend(t, s, storetest.Story("a", 60)...)
	n := 0
	for _, err := range s.Events(t.Context(), "a", 0) {
		if n++; n == 1 {
			if _, err := s.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil && !errors.As(err, new(*store.NotFoundError)) {
			t.Errorf("behind %d events: %v", n, err)
		}
	}
}

// If bytes of the file change anywhere, reads return what was written up to an error. Nothing hangs or panics.
func TestFlippedBytesOfTheFile(t *testing.T) {
	t.Parallel()
	filesOnly(t)
	cfg := storetest.Config(t)
	cfg.Logger = nil
	s := openAt(t, cfg)
	ids := []event.ThreadID{"a", "b", "c"}
	want := map[event.ThreadID][]event.Event{}
	for _, id := range ids {
		want[id] = storetest.Story(id, 12)
	}
	for i := range want["a"] {
		for _, id := range ids {
			mustAppend(t, s, want[id][i])
		}
	}
	mustBarrier(t, s, want["c"])
	if wrong, err := s.Verify(t.Context(), true); err != nil || len(wrong) > 0 {
		t.Fatalf("before anything has changed: %q, %v", wrong, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := slices.Clone(file)
		switch from := rapid.IntRange(0, len(b)-1).Draw(rt, "from"); rapid.SampledFrom([]string{"flip", "zero", "cut"}).Draw(rt, "how") {
		case "flip":
			b[from] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		case "zero":
			page := from / 4096 * 4096
			clear(b[page : page+4096])
		case "cut":
			b = b[:from]
		}
		dir, err := os.MkdirTemp("", "flipped")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "threads.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			rt.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.Config{Path: path})
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				rt.Errorf("it is not opened: %v", err)
			}
			return
		}
		defer s.Close(t.Context())
		for _, id := range ids {
			for what, read := range map[string]iter.Seq2[event.Event, error]{
				"events": s.Events(t.Context(), id, 0), "what counts": s.EffectiveEvents(t.Context(), id, 0),
			} {
				got, err := prefix(read)
				if len(got) > 0 && !reflect.DeepEqual(got, want[id][:len(got)]) {
					rt.Errorf("%s of %s are others than were written", what, id)
				}
				// With its row a thread is gone from the listing; checking finds what is left of it.
				if err == nil && len(got) != len(want[id]) && (what == "events" || len(got) > 0) {
					if _, err := s.Thread(t.Context(), string(id)); err == nil {
						rt.Errorf("%s of %s end with number %d, and nothing is said of it", what, id, len(got))
					}
				}
			}
		}
		if _, err := s.Verify(t.Context(), true); err != nil && !database.IsDamaged(err) {
			rt.Errorf("verify: %v", err)
		}
	})
}

// Putting content again replaces a damaged file.
func TestPutReplacesDamagedArtifact(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	put := func() string {
		ref, err := s.PutArtifact(t.Context(), "text/plain", "f", strings.NewReader("the content"))
		if err != nil {
			t.Fatal(err)
		}
		return ref.SHA256
	}
	digest := put()
	mustAppend(t, s, event.Event{Seq: 1, Thread: "t", Body: event.Notice{Text: "see " + digest}})
	if err := os.WriteFile(s.ArtifactPath(digest), []byte("the kontent"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Check(t.Context(), "t"); err != nil || len(c.Artifacts) != 1 || !errors.As(c.Artifacts[0], new(*store.CorruptError)) {
		t.Errorf("check: %+v, %v", c, err)
	}
	put()
	if c, err := s.Check(t.Context(), "t"); err != nil || !c.Intact() {
		t.Errorf("check: %+v, %v", c, err)
	}
	if err := os.Remove(s.ArtifactPath(digest)); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Check(t.Context(), "t"); err != nil || len(c.Artifacts) != 1 || !errors.As(c.Artifacts[0], new(*store.NotFoundError)) {
		t.Errorf("check: %+v, %v", c, err)
	}
}
