package store_test

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
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func put(t *testing.T, s *store.Store, content string) contract.ArtifactRef {
	t.Helper()
	ref, err := s.PutArtifact(t.Context(), "text/plain", "file.txt", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func content(t *testing.T, s *store.Store, digest string) (string, error) {
	t.Helper()
	r, err := s.Artifact(t.Context(), digest)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func digestOf(content string) string {
	d := sha256.Sum256([]byte(content))
	return hex.EncodeToString(d[:])
}

// mention makes the next event of a thread, which mentions artifacts.
func mention(t *testing.T, s *store.Store, thread event.ThreadID, seq uint64, digests ...string) {
	t.Helper()
	item := event.Item{ID: event.ItemID(fmt.Sprint("i", seq)), Type: event.ItemFileChange}
	for _, d := range digests {
		item.Changes = append(item.Changes, event.FileChange{Path: "/f", Kind: "update", After: d})
	}
	mustAppend(t, s, event.Event{Seq: seq, Thread: thread, Time: time.Now(), Body: event.ItemCompleted{Item: item}})
}

// artifactFiles lists the digests of the files in a store's artifact folder, and what else is there.
func artifactFiles(t *testing.T, s *store.Store) (digests, others []string) {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(s.ArtifactPath(strings.Repeat("0", 64))))
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || d.Name() == "lock":
		case len(d.Name()) == 64:
			digests = append(digests, d.Name())
		default:
			others = append(others, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return digests, others
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	big := strings.Repeat("0123456789abcdef", 600<<10) // 9.4 MiB: checked on the way
	for _, text := range []string{"", "hello", big} {
		ref, err := s.PutArtifact(t.Context(), "text/plain", "/home/ada/../notes.txt", iotest.HalfReader(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		want := contract.ArtifactRef{SHA256: digestOf(text), SizeBytes: int64(len(text)), MediaType: "text/plain", Name: "notes.txt"}
		if ref != want {
			t.Errorf("put: %+v, want %+v", ref, want)
		}
		if got, err := content(t, s, ref.SHA256); err != nil || got != text {
			t.Errorf("%d bytes came back, %v, want %d", len(got), err, len(text))
		}
		if info, err := s.ArtifactInfo(t.Context(), ref.SHA256); err != nil || info != want {
			t.Errorf("info: %+v, %v, want %+v", info, err, want)
		}
	}
	again := put(t, s, "hello")
	if again.SHA256 != digestOf("hello") {
		t.Errorf("putting again: %+v", again)
	}
	if digests, others := artifactFiles(t, s); len(digests) != 3 || len(others) != 0 {
		t.Errorf("files: %d, others: %q", len(digests), others)
	}
	for _, digest := range []string{digestOf("unknown"), "", "x", "../../../../etc/passwd", strings.ToUpper(digestOf("hello"))} {
		if _, err := s.Artifact(t.Context(), digest); !errors.As(err, new(*store.NotFoundError)) {
			t.Errorf("Artifact(%q): %v", digest, err)
		}
		if _, err := s.ArtifactInfo(t.Context(), digest); !errors.As(err, new(*store.NotFoundError)) {
			t.Errorf("ArtifactInfo(%q): %v", digest, err)
		}
	}
	if ref, err := s.PutArtifact(t.Context(), "", "a\x00b\x1b\\c\n"+strings.Repeat("é", 300), strings.NewReader("n")); err != nil ||
		ref.MediaType != "application/octet-stream" || len(ref.Name) > 255 || strings.ContainsAny(ref.Name, "\x00\x1b\n\\") {
		t.Errorf("a strange name: %+v, %v", ref, err)
	}
}

func TestDamagedArtifact(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	small, big := "hello", strings.Repeat("x", 9<<20)
	for _, text := range []string{small, big} {
		ref := put(t, s, text)
		path := s.ArtifactPath(ref.SHA256)
		if err := os.WriteFile(path, []byte("H"+text[1:]), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := content(t, s, ref.SHA256)
		if c, ok := errors.AsType[*store.CorruptError](err); !ok || c.SHA256 != ref.SHA256 || c.Got != digestOf("H"+text[1:]) {
			t.Errorf("changed: %v", err)
		}
		if err := os.WriteFile(path, []byte(text[1:]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := content(t, s, ref.SHA256); !errors.As(err, new(*store.CorruptError)) {
			t.Errorf("cut short: %v", err)
		}
		put(t, s, text) // what was cut short is made whole
		if got, err := content(t, s, ref.SHA256); err != nil || got != text {
			t.Errorf("after putting it again: %d bytes, %v", len(got), err)
		}
	}
}

func TestFailedPut(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, func(c *store.Config) { c.MaxArtifactBytes = 10 })
	gone := errors.New("source is gone")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for what, try := range map[string]func() error{
		"too large": func() error {
			_, err := s.PutArtifact(t.Context(), "", "", strings.NewReader("01234567890"))
			if err == nil || !strings.Contains(err.Error(), "10 bytes") {
				t.Errorf("too large: %v", err)
			}
			return err
		},
		"broken": func() error {
			_, err := s.PutArtifact(t.Context(), "", "", io.MultiReader(strings.NewReader("012"), iotest.ErrReader(gone)))
			return err
		},
		"cancelled": func() error {
			_, err := s.PutArtifact(cancelled, "", "", strings.NewReader("012"))
			return err
		},
	} {
		if err := try(); err == nil || what != "too large" && !errors.Is(err, gone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ref, err := s.PutArtifact(t.Context(), "", "", strings.NewReader("0123456789")); err != nil || ref.SizeBytes != 10 {
		t.Errorf("the largest: %+v, %v", ref, err)
	}
	if digests, others := artifactFiles(t, s); len(digests) != 1 || len(others) != 0 {
		t.Errorf("left: %q %q", digests, others)
	}
}

func TestConcurrentPutsOfEqualContent(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	stores := []*store.Store{openAt(t, cfg), openAt(t, cfg)}
	text := strings.Repeat("same ", 1000)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			ref, err := stores[n%2].PutArtifact(t.Context(), "text/plain", "f", strings.NewReader(text))
			if err != nil || ref.SHA256 != digestOf(text) {
				t.Errorf("%+v, %v", ref, err)
			}
		})
	}
	wg.Wait()
	if got, err := content(t, stores[0], digestOf(text)); err != nil || got != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	ctx := t.Context()
	mine, shared, pending, unmentioned := put(t, s, "mine"), put(t, s, "shared"), put(t, s, "pending"), put(t, s, "unmentioned")
	mention(t, s, "a", 1, mine.SHA256, shared.SHA256, strings.Repeat("0", 64))
	mention(t, s, "a", 2, pending.SHA256, mine.SHA256)
	mention(t, s, "b", 1, shared.SHA256)
	put(t, s, "pending") // by a call of another thread, whose result is to come
	for _, e := range storetest.Story("kept", 1) {
		mustAppend(t, s, e)
	}
	for _, statement := range []string{
		store.Edge, "INSERT INTO agent_messages (sender, recipient, created_at, delivered_at, payload) VALUES ('a', 'kept', 1, 0, '1')",
	} {
		if err := s.ExecOnWriter(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Delete(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Threads) != 1 || report.Artifacts != 1 || report.Bytes != int64(len("mine")) {
		t.Errorf("report = %+v", report)
	}
	for text, want := range map[string]bool{"mine": false, "shared": true, "pending": true, "unmentioned": true} {
		if _, err := content(t, s, digestOf(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := s.ArtifactInfo(ctx, digestOf(text)); (err == nil) != want {
			t.Errorf("row of %s: %v", text, err)
		}
	}
	_ = unmentioned
	if got := stored(t, s, "a", 0); len(got) != 0 {
		t.Errorf("%d events are left", len(got))
	}
	db := storetest.SQL(t, cfg)
	for _, table := range []string{"threads WHERE id", "turns WHERE thread_id", "items WHERE thread_id", "artifact_refs WHERE thread_id",
		"agent_edges WHERE parent", "agent_messages WHERE sender"} {
		if left := dump(t, db, "SELECT * FROM "+table+" = 'a'"); len(left) > 0 {
			t.Errorf("left: %s: %s", table, left)
		}
	}
	if got := stored(t, s, "kept", 0); len(got) != 11 {
		t.Errorf("%d events of another thread are left", len(got))
	}
	if _, err := s.Delete(ctx, "a"); !errors.As(err, new(*store.NotFoundError)) {
		t.Errorf("deleting again: %v", err)
	}
	// The id may be used again.
	mention(t, s, "a", 1, shared.SHA256)
	mustBarrier(t, s, []event.Event{{Thread: "a", Seq: 1}})
}

func TestDeleteOfOpenThread(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	mention(t, s, "a", 1)
	lock, err := s.LockThread(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Delete(t.Context(), "a")
	if l, ok := errors.AsType[*store.LockedError](err); !ok || l.Owner.PID != os.Getpid() {
		t.Errorf("Delete = %v, want a LockedError that names process %d", err, os.Getpid())
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	ctx := t.Context()
	day := 24 * time.Hour
	old, young, mentioned := put(t, s, "old"), put(t, s, "young"), put(t, s, "mentioned")
	again := put(t, s, "again")
	mention(t, s, "a", 1, mentioned.SHA256)
	for _, ref := range []contract.ArtifactRef{old, mentioned, again} {
		if err := s.AgeArtifact(ctx, ref.SHA256, 2*day); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * day)
	if err := os.Chtimes(s.ArtifactPath(old.SHA256), past, past); err != nil {
		t.Fatal(err)
	}
	// "again" keeps its young file: in another process it was put again a moment ago, and its row is on the way.
	stray := digestOf("stray")
	for path, when := range map[string]time.Time{
		s.ArtifactPath(stray):                    past,
		s.ArtifactPath(digestOf("young stray")):  time.Now(),
		filepath.Join(tmpOf(s), "put-123"):       past,
		filepath.Join(tmpOf(s), "put-456-young"): time.Now(),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Collect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if report.Artifacts != 2 {
		t.Errorf("report = %+v, want the old one and the stray", report)
	}
	digests, others := artifactFiles(t, s)
	left := strings.Join(append(digests, others...), " ")
	for name, want := range map[string]bool{
		old.SHA256: false, stray: false, "put-123": false,
		young.SHA256: true, mentioned.SHA256: true, again.SHA256: true, digestOf("young stray"): true, "put-456-young": true,
	} {
		if strings.Contains(left, name) != want {
			t.Errorf("%s: is there: %v, want %v", name, !want, want)
		}
	}
}

func tmpOf(s *store.Store) string {
	return filepath.Join(filepath.Dir(filepath.Dir(s.ArtifactPath(strings.Repeat("0", 64)))), "tmp")
}

func TestRetain(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T) *store.Store {
		s := storetest.Open(t)
		for n := range 6 { // t0 is the newest, each a day older than the one before
			mustAppend(t, s, event.Event{
				Seq: 1, Thread: event.ThreadID(fmt.Sprint("t", n)), Time: time.Now().Add(-time.Duration(n)*24*time.Hour - time.Hour),
				Body: event.ThreadStarted{},
			})
		}
		mustAppend(t, s, event.Event{
			Seq: 2, Thread: "t5", Time: time.Now().Add(-5*24*time.Hour - time.Hour), Body: event.ThreadNamed{Name: "keep me"},
		})
		return s
	}
	day := 24 * time.Hour
	for _, test := range []struct {
		policy store.Policy
		locked event.ThreadID
		want   string // what is left
		gone   int
	}{
		{store.Policy{}, "", "t0 t1 t2 t3 t4 t5", 0},
		{store.Policy{MaxAge: 3 * day}, "", "t0 t1 t2", 3},
		{store.Policy{MaxAge: 3 * day, KeepNamed: true}, "", "t0 t1 t2 t5", 2},
		{store.Policy{MaxThreads: 2}, "", "t0 t1", 4},
		{store.Policy{MaxThreads: 2, KeepNamed: true}, "", "t0 t1 t5", 3},
		{store.Policy{MaxThreads: 4, MaxAge: 2 * day}, "", "t0 t1", 4},
		{store.Policy{MaxThreads: 2}, "t3", "t0 t1 t3", 3},
		{store.Policy{MaxThreads: 2, DryRun: true}, "t3", "t0 t1 t2 t3 t4 t5", 3},
	} {
		t.Run(fmt.Sprintf("%+v", test.policy), func(t *testing.T) {
			s := build(t)
			if test.locked != "" {
				lock, err := s.LockThread(t.Context(), test.locked)
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Release()
			}
			report, err := s.Retain(t.Context(), test.policy)
			if err != nil {
				t.Fatal(err)
			}
			left, err := s.Threads(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if ids(left) != test.want || len(report.Threads) != test.gone || (len(report.Skipped) > 0) != (test.locked != "") {
				t.Errorf("left %q, report %+v; want %q and %d gone", ids(left), report, test.want, test.gone)
			}
		})
	}
}

func TestRetainShrinks(t *testing.T) {
	filesOnly(t)
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	mustAppend(t, s, event.Event{Seq: 1, Thread: "t", Time: time.Unix(1000, 0), Body: event.Notice{Text: strings.Repeat("x", 4<<20)}})
	mustBarrier(t, s, []event.Event{{Thread: "t", Seq: 1}})
	pages := func() string { return fmt.Sprint(dump(t, storetest.SQL(t, cfg), "PRAGMA page_count")) }
	before := pages()
	if _, err := s.Retain(t.Context(), store.Policy{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if after := pages(); len(after) >= len(before) {
		t.Errorf("%s pages before, %s after", before, after)
	}
	if got := dump(t, storetest.SQL(t, cfg), "PRAGMA integrity_check"); fmt.Sprint(got) != "[[ok]]" {
		t.Errorf("integrity check: %v", got)
	}
}

func TestArtifactsSurviveReopening(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	ref := put(t, s, "content")
	mention(t, s, "a", 1, ref.SHA256)
	s = reopen(t, s, cfg)
	if got, err := content(t, s, ref.SHA256); err != nil || got != "content" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := content(t, s, ref.SHA256); err == nil {
		t.Error("it outlives its only thread")
	}
	var b bytes.Buffer
	if err := s.Export(t.Context(), "a", &b); err == nil {
		t.Error("the thread is still there")
	}
}
