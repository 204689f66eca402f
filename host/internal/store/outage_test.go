package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// ownServer starts a server that the test may kill. It is one of its own: the other tests' must live.
func ownServer(t *testing.T) (*postgrestest.Server, store.Config) {
	t.Helper()
	if onServer() {
		t.Skip("it has run with a server of its own already")
	}
	server := postgrestest.Start(t)
	cfg := storetest.Config(t)
	cfg.Database = store.Database{Driver: postgres.Driver{}, Source: server.Address}
	return server, cfg
}

// A server that goes away costs barriers and nothing else: what is appended meanwhile is there once it is back, and nothing is
// there twice.
func TestServerOutage(t *testing.T) {
	t.Parallel()
	server, cfg := ownServer(t)
	h := make(health, 10)
	watch(h)(&cfg)
	s := openAt(t, cfg)
	thread := event.NewThreadID()
	next := forever(thread)
	var all []event.Event
	add := func(n int) {
		t.Helper()
		for range n {
			e := next()
			all = append(all, e)
			mustAppend(t, s, e)
		}
	}
	lock, err := s.LockThread(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	add(20)
	mustBarrier(t, s, all)
	for name, end := range map[string]func(){"killed": server.Kill, "stopped": server.Stop} {
		end()
		add(7)
		err := s.Barrier(t.Context(), thread, all[len(all)-1].Seq)
		if !errors.As(err, new(*store.DegradedError)) || !database.IsUnreachable(err) || !strings.Contains(err.Error(), "next: ") {
			t.Errorf("%s: barrier = %v", name, err)
		}
		h.degraded(t)
		add(150) // more than a batch
		if err := s.ExecOnWriter(t.Context(), store.Edge); !errors.As(err, new(*store.DegradedError)) {
			t.Errorf("%s: PutSetting = %v", name, err)
		}
		if _, err := s.Threads(t.Context(), store.Filter{}); !database.IsUnreachable(err) {
			t.Errorf("%s: Threads = %v", name, err)
		}
		server.Restart()
		h.recovered(t)
		mustBarrier(t, s, all)
		if got := stored(t, s, thread, 0); !reflect.DeepEqual(got, all) {
			t.Fatalf("%s: %d events are stored, %d were appended", name, len(got), len(all))
		}
		if owner, held, err := s.Holder(t.Context(), thread); err != nil || !held {
			t.Errorf("%s: the thread is held by %v: %v, %v", name, owner, held, err)
		}
	}
	// Between two writes it may come and go unseen.
	server.Stop()
	server.Restart()
	add(1)
	mustBarrier(t, s, all)
	if s.Degraded() != nil || len(h) > 0 {
		t.Errorf("degraded: %v", s.Degraded())
	}
	if err := errors.Join(lock.Release(), s.Close(t.Context())); err != nil {
		t.Error(err)
	}
	verify(t, cfg, thread, uint64(len(all)))
}

// Whenever the server is killed: what was behind a barrier is there, and each thread is a beginning of what was appended.
func TestSIGKILLOfTheServer(t *testing.T) {
	t.Parallel()
	server, cfg := ownServer(t)
	kills := 6
	if testing.Short() {
		kills = 2
	}
	for range kills {
		var children []*child
		var threads []event.ThreadID
		reached := make([]uint64, 3)
		for i := range reached {
			threads = append(threads, event.NewThreadID())
			children = append(children, startChild(t, childOf(cfg, childConfig{Mode: "journal", Thread: threads[i]})))
			children[i].line(t)
		}
		var wg sync.WaitGroup
		for i, c := range children {
			wg.Go(func() { // until the child gives up: its barrier fails
				for {
					line, err := c.out.ReadString('\n')
					if err != nil {
						return
					}
					reached[i], _ = strconv.ParseUint(strings.TrimSpace(line), 10, 64)
				}
			})
		}
		server.Kill()
		wg.Wait()
		server.Restart()
		for i, c := range children {
			if err := c.cmd.Wait(); err == nil || !strings.Contains(c.err.String(), "writing has failed") {
				t.Errorf("the child ended with %v: %s", err, c.err)
			}
			verify(t, cfg, threads[i], reached[i])
		}
	}
}

// A host that was cut off while another one took its thread writes nothing to it any more, and says why. Its other threads go
// on.
func TestThreadTakenOver(t *testing.T) {
	t.Parallel()
	_, cfg := ownServer(t)
	postgrestest.Exec(t, cfg.Database.Source, "SELECT 1")
	root := strings.Replace(cfg.Database.Source, "user=gantry", "user=postgres", 1)
	b := openAt(t, cfg) // makes the tables
	for _, statement := range []string{
		"CREATE ROLE cutoff LOGIN", "GRANT ALL ON SCHEMA public TO cutoff", "GRANT ALL ON ALL TABLES IN SCHEMA public TO cutoff",
	} {
		postgrestest.Exec(t, root, statement)
	}
	mine := cfg
	mine.Database.Source = strings.Replace(cfg.Database.Source, "user=gantry", "user=cutoff", 1)
	a := openAt(t, mine)
	taken, kept := event.NewThreadID(), event.NewThreadID()
	nextTaken, nextKept := forever(taken), forever(kept)
	for _, id := range []event.ThreadID{taken, kept} {
		if _, err := a.LockThread(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	write := func(s *store.Store, e event.Event) error {
		return errors.Join(s.Append(t.Context(), e), s.Barrier(t.Context(), e.Thread, e.Seq))
	}
	if err := errors.Join(write(a, nextTaken()), write(a, nextKept())); err != nil {
		t.Fatal(err)
	}
	if _, err := b.LockThread(t.Context(), taken); !errors.As(err, new(*store.LockedError)) {
		t.Fatalf("before: %v", err)
	}
	postgrestest.Exec(t, root, "ALTER ROLE cutoff NOLOGIN")
	postgrestest.Exec(t, root, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'cutoff'")
	if _, err := b.LockThread(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, root, "ALTER ROLE cutoff LOGIN")

	// The other one has written nothing yet: what comes next would fit by its number.
	err := write(a, nextTaken())
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || !errors.Is(err, store.ErrTakenOver) || c.Seq != 2 || !strings.Contains(err.Error(), "next: resume") {
		t.Errorf("a write to the lost thread: %v", err)
	}
	if err := errors.Join(write(a, nextKept()), write(b, event.Event{Seq: 2, Thread: taken, Body: event.ThreadNamed{Name: "mine now"}})); err != nil {
		t.Error(err)
	}
	if a.Degraded() != nil {
		t.Error(a.Degraded())
	}
	if got := stored(t, b, taken, 0); len(got) != 2 || fmt.Sprint(got[1].Body) != fmt.Sprint(event.ThreadNamed{Name: "mine now"}) {
		t.Errorf("%d events: %+v", len(got), got)
	}
}
