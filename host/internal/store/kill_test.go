package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// derived is all that is derived from the events of a thread.
func derived(t testing.TB, db *sql.DB, thread event.ThreadID) []string {
	t.Helper()
	var all []string
	for _, query := range []string{
		`SELECT id, seq, created_at, updated_at, cwd, model, provider, model_name, source, forked_from, name, preview, status,
			turns, tokens FROM threads WHERE id = ?`,
		`SELECT * FROM turns WHERE thread_id = ? ORDER BY first_seq`,
		`SELECT * FROM items WHERE thread_id = ? ORDER BY first_seq`,
		`SELECT sha256 FROM artifact_refs WHERE thread_id = ? ORDER BY sha256`,
	} {
		all = append(all, dump(t, db, query, string(thread))...)
	}
	return all
}

// verify checks that a database is whole and that a thread in it is the beginning of what was appended, at least up to seq,
// with derived rows that fit. It returns the number of its last event.
func verify(t *testing.T, where store.Config, thread event.ThreadID, least uint64) uint64 {
	t.Helper()
	where = store.Config{Path: where.Path, Database: where.Database}
	db := storetest.SQL(t, where)
	if where.Database.Driver == nil {
		if got := dump(t, db, "PRAGMA integrity_check"); !reflect.DeepEqual(got, []string{"[ok]"}) {
			t.Fatalf("integrity check: %v", got)
		}
	}
	s := openAt(t, where)
	got := stored(t, s, thread, 0)
	last := uint64(len(got))
	if last < least {
		t.Fatalf("%d events are there, %d were behind a barrier", last, least)
	}
	next := forever(thread)
	for i, e := range got {
		if want := next(); !reflect.DeepEqual(e, want) {
			t.Fatalf("event %d is\n%+v, not\n%+v", i+1, e, want)
		}
	}
	// The same events written anew must lead to the same derived rows.
	cfg := storetest.Config(t)
	fresh := openAt(t, cfg)
	mustAppend(t, fresh, got...)
	if err := fresh.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if have, want := derived(t, db, thread), derived(t, storetest.SQL(t, cfg), thread); !reflect.DeepEqual(have, want) {
		t.Fatalf("derived rows do not fit %d events:\n%s\nwant\n%s", last, strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	// And it goes on.
	e := next()
	mustAppend(t, s, e)
	if err := s.Barrier(t.Context(), thread, e.Seq); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return last
}

func TestSIGKILLAfterBarrier(t *testing.T) {
	t.Parallel()
	kills := 30
	if testing.Short() {
		kills = 5
	}
	cfg := storetest.Config(t)
	lost := 0
	for n := range kills {
		thread := event.NewThreadID() // in one database, which is killed again and again
		c := startChild(t, childOf(cfg, childConfig{Mode: "journal", Thread: thread}))
		reached := ""
		for range 1 + rand.IntN(40) {
			reached = c.line(t)
		}
		if rest := c.kill(t); len(rest) > 0 {
			reached = rest[len(rest)-1]
		}
		least, err := strconv.ParseUint(reached, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if last := verify(t, cfg, thread, least); last > least {
			lost++ // events without a barrier were kept, too
		}
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
	}
	t.Logf("%d kills; %d threads had more than their last barrier", kills, lost)
}

func TestSIGKILLOfTheWriterWhileAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	mine := event.NewThreadID()
	next := forever(mine)
	for range 5 {
		other := event.NewThreadID()
		c := startChild(t, childOf(cfg, childConfig{Mode: "journal", Thread: other}))
		c.line(t)
		var last event.Event
		for n := range 60 {
			if n == 30 {
				c.kill(t)
			}
			last = next()
			mustAppend(t, s, last)
			mustBarrier(t, s, []event.Event{last})
		}
		if got := stored(t, s, mine, 0); uint64(len(got)) != last.Seq {
			t.Fatalf("%d events, want %d", len(got), last.Seq)
		}
		verify(t, cfg, other, 1)
	}
}

// A machine that loses power may keep any part of what was written and not synced. Whatever is left of the write-ahead log,
// the database is whole and each thread is a beginning of what was appended.
func TestTornWriteAheadLog(t *testing.T) {
	filesOnly(t)
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "threads.db")
	s := openAt(t, store.Config{Path: path, BatchRows: 5})
	thread := event.NewThreadID()
	next := forever(thread)
	for range 200 {
		mustAppend(t, s, next())
	}
	if _, err := s.Threads(t.Context(), store.Filter{}); err != nil { // all is committed
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	tears := 25
	if testing.Short() {
		tears = 5
	}
	seen := map[uint64]bool{}
	for n := range tears {
		torn := append([]byte(nil), log...)
		switch at := rand.IntN(len(torn)); n % 3 {
		case 0: // its end is missing
			torn = torn[:at]
		case 1: // a page is garbage
			for i := at; i < min(at+4096, len(torn)); i++ {
				torn[i] = byte(rand.Uint32())
			}
		case 2: // its end was never written, only its length
			clear(torn[at:])
		}
		copyDir := filepath.Join(dir, fmt.Sprint("torn-", n))
		if err := os.Mkdir(copyDir, 0o700); err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(copyDir, "threads.db")
		copyFile(t, path, copied)
		if err := os.WriteFile(copied+"-wal", torn, 0o600); err != nil {
			t.Fatal(err)
		}
		seen[verify(t, store.Config{Path: copied}, thread, 0)] = true
	}
	if len(seen) < tears/5 {
		t.Errorf("tears led to %d different lengths only: they did not hit", len(seen))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProcessExitReleasesThreads(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	thread := event.NewThreadID()
	c := startChild(t, childOf(cfg, childConfig{Mode: "lock", Thread: thread}))
	c.line(t)
	s := openAt(t, cfg)
	_, err := s.LockThread(t.Context(), thread)
	if want := fmt.Sprintf("process %d", c.cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("LockThread = %v, want an error that names %s", err, want)
	}
	if owner, held, err := s.Holder(t.Context(), thread); owner.PID != c.cmd.Process.Pid || !held || err != nil {
		t.Errorf("Holder = %v, %v, %v", owner, held, err)
	}
	c.kill(t)
	if _, held, err := s.Holder(t.Context(), thread); held || err != nil {
		t.Errorf("after its end: Holder = %v, %v", held, err)
	}
	lock, err := s.LockThread(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestProcessExitReleasesLeases(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	state, err := pluginstate.Open(t.Context(), cfg.Database.Config(cfg.Path), filepath.Dir(cfg.Path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	for want := uint64(1); want < 6; want += 2 {
		c := startChild(t, childOf(cfg, childConfig{Mode: "lease"}))
		if got := c.line(t); got != fmt.Sprint(want) {
			t.Fatalf("the child's token is %s, want %d", got, want)
		}
		if _, err := state.Acquire(t.Context(), "plugin", "name", "test", 0); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("host process %d", c.cmd.Process.Pid)) {
			t.Fatalf("while the child holds it: %v", err)
		}
		c.kill(t)
		lease, err := state.Acquire(context.Background(), "plugin", "name", "test", 0)
		if err != nil {
			t.Fatal(err)
		}
		if lease.Token != want+1 {
			t.Errorf("token = %d, want %d", lease.Token, want+1)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
