package pluginstate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOnPostgreSQL runs all other tests of this package on a server.
func TestOnPostgreSQL(t *testing.T) { postgrestest.Rerun(t) }

func open(t testing.TB, cfg store.Config) *pluginstate.Store {
	t.Helper()
	s, err := pluginstate.Open(t.Context(), cfg.Database.Config(cfg.Path), filepath.Dir(cfg.Path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStateKeys(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := open(t, cfg)
	ctx := t.Context()
	plugin, thread, other := pluginstate.Scope{Plugin: "p"}, pluginstate.Scope{Plugin: "p", Thread: "t"}, pluginstate.Scope{Plugin: "q"}
	if _, found, err := s.Get(ctx, plugin, "k"); found || err != nil {
		t.Errorf("before any put: %v, %v", found, err)
	}
	for scope, value := range map[pluginstate.Scope]string{plugin: "of the plugin", thread: "of the thread", other: "of another"} {
		if _, stored, err := s.Put(ctx, scope, "k", []byte(value), nil); !stored || err != nil {
			t.Fatal(stored, err)
		}
	}
	check := func(s *pluginstate.Store) {
		t.Helper()
		for scope, want := range map[pluginstate.Scope]string{plugin: "of the plugin", thread: "of the thread", other: "of another"} {
			got, found, err := s.Get(ctx, scope, "k")
			if !found || err != nil || string(got.Data) != want || got.Version == 0 || got.Updated.IsZero() {
				t.Errorf("%+v: %+v, %v, %v, want %q", scope, got, found, err, want)
			}
		}
	}
	check(s)
	check(open(t, cfg)) // at any time, from anywhere
	for _, value := range [][]byte{nil, {}, {0, 1, 0xff}, bytes.Repeat([]byte{7}, pluginstate.MaxValueBytes)} {
		if _, _, err := s.Put(ctx, plugin, "bytes", value, nil); err != nil {
			t.Fatal(err)
		}
		if got, found, err := s.Get(ctx, plugin, "bytes"); !found || err != nil || !bytes.Equal(got.Data, value) {
			t.Errorf("%d bytes came back, %v, %v, want %d", len(got.Data), found, err, len(value))
		}
	}
	for what, err := range map[string]error{
		"no key":         second(s.Put(ctx, plugin, "", nil, nil)),
		"a long key":     second(s.Put(ctx, plugin, strings.Repeat("k", 257), nil, nil)),
		"a large value":  second(s.Put(ctx, plugin, "k", make([]byte, pluginstate.MaxValueBytes+1), nil)),
		"a lease's name": func() error { _, err := s.Acquire(ctx, "p", "", "h", 0); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := s.DeleteThread(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := s.Get(ctx, thread, "k"); found {
		t.Error("a deleted thread's key is there")
	}
	if err := s.DeleteThread(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := s.Get(ctx, plugin, "k"); !found {
		t.Error("a plugin's own key went with a thread")
	}
}

func second(_ uint64, _ bool, err error) error { return err }

func TestStateVersions(t *testing.T) {
	t.Parallel()
	s := open(t, storetest.Config(t))
	ctx := t.Context()
	scope := pluginstate.Scope{Plugin: "p"}
	v := func(n uint64) *uint64 { return &n }
	put := func(want bool, ifVersion *uint64) uint64 {
		t.Helper()
		version, stored, err := s.Put(ctx, scope, "k", []byte("x"), ifVersion)
		if err != nil || stored != want {
			t.Fatalf("stored = %v, %v, want %v", stored, err, want)
		}
		return version
	}
	if version := put(false, v(7)); version != 0 {
		t.Errorf("no key: version %d", version)
	}
	first := put(true, v(0))
	if version := put(false, v(0)); version != first {
		t.Errorf("it is there: version %d, want %d", version, first)
	}
	next := put(true, &first)
	if next <= first {
		t.Errorf("version %d follows %d", next, first)
	}
	if version := put(false, &first); version != next {
		t.Errorf("an old version: %d, want %d", version, next)
	}
	if version, deleted, err := s.Delete(ctx, scope, "k", &first); deleted || version != next || err != nil {
		t.Errorf("delete of an old version: %d, %v, %v", version, deleted, err)
	}
	if _, deleted, err := s.Delete(ctx, scope, "k", &next); !deleted || err != nil {
		t.Errorf("delete: %v, %v", deleted, err)
	}
	if _, deleted, err := s.Delete(ctx, scope, "k", nil); !deleted || err != nil {
		t.Errorf("delete of what is not there: %v, %v", deleted, err)
	}
	if _, deleted, err := s.Delete(ctx, scope, "k", &next); deleted || err != nil {
		t.Errorf("conditional delete of what is not there: %v, %v", deleted, err)
	}
	if again := put(true, v(0)); again <= next {
		t.Errorf("made anew with version %d, which is not behind %d", again, next)
	}
}

func TestConcurrentIncrements(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	scope := pluginstate.Scope{Plugin: "p"}
	var wg sync.WaitGroup
	for range 2 {
		s := open(t, cfg)
		for range 2 {
			wg.Go(func() {
				for range 25 {
					for {
						got, _, err := s.Get(t.Context(), scope, "n")
						if err != nil {
							t.Error(err)
							return
						}
						n := 0
						_, _ = fmt.Sscan(string(got.Data), &n)
						_, stored, err := s.Put(t.Context(), scope, "n", []byte(fmt.Sprint(n+1)), &got.Version)
						if err != nil {
							t.Error(err)
							return
						}
						if stored {
							break
						}
					}
				}
			})
		}
	}
	wg.Wait()
	if got, _, err := open(t, cfg).Get(t.Context(), scope, "n"); err != nil || string(got.Data) != "100" {
		t.Errorf("n = %s, %v, want 100", got.Data, err)
	}
}

func TestStateList(t *testing.T) {
	t.Parallel()
	s := open(t, storetest.Config(t))
	scope := pluginstate.Scope{Plugin: "p"}
	for _, key := range []string{"b/2", "a", "b/1", "b", "B/3", "%", "é/1", "é/2"} {
		if _, _, err := s.Put(t.Context(), scope, key, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Put(t.Context(), pluginstate.Scope{Plugin: "p", Thread: "t"}, "b/of-a-thread", nil, nil); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string][]string{
		"":   {"%", "B/3", "a", "b", "b/1", "b/2", "é/1", "é/2"},
		"b":  {"b", "b/1", "b/2"},
		"b/": {"b/1", "b/2"},
		"%":  {"%"},
		"é/": {"é/1", "é/2"},
		"c":  {},
	} {
		if got, err := s.List(t.Context(), scope, prefix); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %v, want %q", prefix, got, err, want)
		}
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	a, b := open(t, cfg), open(t, cfg)
	ctx := t.Context()
	lease, err := a.Acquire(ctx, "p", "browser", "call 1", 0)
	if err != nil || lease.Token != 1 || lease.Holder != "call 1" {
		t.Fatalf("%+v, %v", lease, err)
	}
	for name, s := range map[string]*pluginstate.Store{"the same": a, "another": b} {
		_, err := s.Acquire(ctx, "p", "browser", "call 2", 0)
		if busy, ok := errors.AsType[*pluginstate.BusyError](err); !ok || busy.Holder != "call 1" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if other, err := b.Acquire(ctx, "q", "browser", "h", 0); err != nil || other.Token != 1 {
		t.Errorf("another plugin's: %+v, %v", other, err)
	}
	if err := errors.Join(lease.Err(), lease.Check(ctx)); err != nil {
		t.Error(err)
	}
	if err := errors.Join(lease.Release(ctx), lease.Release(ctx)); err != nil {
		t.Error(err)
	}
	select {
	case <-lease.Lost():
	default:
		t.Error("Lost is open after Release")
	}
	if lease.Err() != nil {
		t.Errorf("Err = %v after Release", lease.Err())
	}
	next, err := b.Acquire(ctx, "p", "browser", "call 2", 0)
	if err != nil || next.Token != 2 {
		t.Fatalf("%+v, %v", next, err)
	}

	// With its State a lease ends, and others get it; the token survives.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	<-next.Lost()
	if !errors.Is(next.Err(), database.ErrClosed) || !errors.Is(next.Check(ctx), database.ErrClosed) {
		t.Errorf("Err = %v", next.Err())
	}
	if err := next.Release(ctx); err != nil {
		t.Error(err)
	}
	if _, err := b.Acquire(ctx, "p", "browser", "h", 0); !errors.Is(err, database.ErrClosed) {
		t.Errorf("Acquire of a closed state: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c := open(t, cfg)
	third, err := c.Acquire(ctx, "p", "browser", "call 3", 0)
	if err != nil || third.Token != 3 {
		t.Errorf("after a restart: %+v, %v", third, err)
	}
}

func TestLostLease(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := open(t, cfg)
	lease, err := s.Acquire(t.Context(), "p", "l", "h", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storetest.SQL(t, cfg).Exec("UPDATE leases SET token = token + 1, host = 'elsewhere'"); err != nil {
		t.Fatal(err)
	}
	if err := lease.Check(t.Context()); !errors.Is(err, pluginstate.ErrLeaseLost) {
		t.Errorf("Check = %v", err)
	}
	<-lease.Lost()
	if !errors.Is(lease.Err(), pluginstate.ErrLeaseLost) {
		t.Errorf("Err = %v", lease.Err())
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	// "elsewhere" is no host process that lives.
	if next, err := s.Acquire(t.Context(), "p", "l", "h", 0); err != nil || next.Token != 3 {
		t.Errorf("%+v, %v", next, err)
	}
}

func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	a, b := open(t, cfg), open(t, cfg)
	for name, s := range map[string]*pluginstate.Store{"the same process": a, "another process": b} {
		lease, err := a.Acquire(t.Context(), "p", "l", "first", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() { // owned by this test, which reads got
			l, err := s.Acquire(t.Context(), "p", "l", "second", time.Hour)
			if err == nil {
				err = l.Release(t.Context())
			}
			got <- err
		}()
		select {
		case err := <-got:
			t.Fatalf("%s: did not wait: %v", name, err)
		case <-time.After(20 * time.Millisecond):
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	lease, err := a.Acquire(t.Context(), "p", "l", "first", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), "p", "l", "second", 30*time.Millisecond); !errors.As(err, new(*pluginstate.BusyError)) {
		t.Errorf("the wait is over: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := b.Acquire(ctx, "p", "l", "second", time.Hour); !errors.Is(err, enough) {
		t.Errorf("its context has ended: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLeasesExcludeEachOther(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	states := []*pluginstate.Store{open(t, cfg), open(t, cfg)}
	var holders atomic.Int32
	var last atomic.Uint64
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			for range 10 {
				l, err := states[n%2].Acquire(t.Context(), "p", "l", fmt.Sprint(n), time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two hold it")
				}
				if before := last.Swap(l.Token); l.Token != before+1 {
					t.Errorf("token %d follows %d", l.Token, before)
				}
				if err := l.Check(t.Context()); err != nil {
					t.Error(err)
				}
				holders.Add(-1)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := open(t, storetest.Config(t))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, _, getErr := s.Get(t.Context(), pluginstate.Scope{}, "k")
	_, listErr := s.List(t.Context(), pluginstate.Scope{}, "")
	for name, err := range map[string]error{
		"Get": getErr, "List": listErr, "Put": second(s.Put(t.Context(), pluginstate.Scope{}, "k", nil, nil)),
		"Delete": second(s.Delete(t.Context(), pluginstate.Scope{}, "k", nil)), "DeleteThread": s.DeleteThread(t.Context(), "t"),
	} {
		if !errors.Is(err, database.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkOpenState(b *testing.B) {
	cfg := storetest.Config(b)
	for b.Loop() {
		s, err := pluginstate.Open(b.Context(), cfg.Database.Config(cfg.Path), filepath.Dir(cfg.Path))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkStatePut(b *testing.B) {
	s := open(b, storetest.Config(b))
	for b.Loop() {
		if _, _, err := s.Put(b.Context(), pluginstate.Scope{Plugin: "p"}, "key", []byte("value"), nil); err != nil {
			b.Fatal(err)
		}
	}
}
