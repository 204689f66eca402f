package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world has fakes of all that a manager uses. What the manager does with browsers is in log.
type world struct {
	t   *testing.T
	now time.Time

	mu       sync.Mutex
	log      []string
	made     int
	alive    map[string]bool
	fail     map[string]error // operation → its error, once
	values   map[string][]byte
	versions map[string]uint64
	inStore  int              // operations of the store that are running
	token    uint64           // the last one
	holder   *Held            // nil: nobody
	lost     chan struct{}    // of holder
	freed    chan struct{}    // closed when the lease is released
	before   func(key string) // called before a write, once
	waiting  chan struct{}    // gets a token when somebody has to wait for the lease; optional
	hold     map[string]chan struct{}
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), alive: map[string]bool{}, fail: map[string]error{},
		values: map[string][]byte{}, versions: map[string]uint64{}, hold: map[string]chan struct{}{},
	}
}

func (w *world) manager(m Mode) *Manager[*link] {
	return New(Options[*link]{Browsers: w, Store: (*memory)(w), Lease: w.lease, Mode: m, Now: func() time.Time { return w.now }})
}

func (w *world) note(op, id string) error {
	w.mu.Lock()
	if w.inStore > 0 {
		w.t.Errorf("%s while the store is in use", op)
	}
	w.log = append(w.log, op+" "+id)
	err, wait := w.fail[op], w.hold[op]
	delete(w.fail, op)
	w.mu.Unlock()
	if wait != nil {
		<-wait
	}
	return err
}

// took returns what was done since the last call.
func (w *world) took() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.log, ", ")
	w.log = nil
	return out
}

func (w *world) Create(context.Context, Mode) (string, error) {
	w.mu.Lock()
	w.made++
	id := fmt.Sprintf("session-%d", w.made)
	w.alive[id] = true
	w.mu.Unlock()
	return id, w.note("POST", id)
}

func (w *world) state(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alive[id] {
		return ErrGone
	}
	return nil
}

func (w *world) Targets(_ context.Context, id string) ([]Target, error) {
	if err := w.note("list", id); err != nil {
		return nil, err
	}
	return []Target{{ID: "t1"}}, w.state(id)
}

func (w *world) Connect(_ context.Context, id string) (*link, error) {
	if err := w.note("connect", id); err != nil {
		return nil, err
	}
	return &link{w, id}, w.state(id)
}

func (w *world) Delete(_ context.Context, id string) error {
	if err := w.note("DELETE", id); err != nil {
		return err
	}
	err := w.state(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.alive, id)
	return err
}

type link struct {
	w  *world
	id string
}

func (l *link) Close() error { return l.w.note("disconnect", l.id) }

// memory is a world's store.
type memory world

func (s *memory) enter() func() {
	s.mu.Lock()
	s.inStore++
	return func() { s.inStore--; s.mu.Unlock() }
}

func (s *memory) Get(_ context.Context, key string) ([]byte, uint64, bool, error) {
	defer s.enter()()
	v, ok := s.values[key]
	return v, s.versions[key], ok, nil
}

func (s *memory) PutIf(_ context.Context, key string, value []byte, version uint64) (uint64, error) {
	s.mu.Lock()
	before := s.before
	s.before = nil
	s.mu.Unlock()
	if before != nil {
		before(key)
	}
	defer s.enter()()
	if s.versions[key] != version {
		return s.versions[key], ErrConflict
	}
	s.values[key] = value
	s.versions[key]++
	return s.versions[key], nil
}

func (s *memory) Delete(_ context.Context, key string) error {
	defer s.enter()()
	delete(s.values, key)
	delete(s.versions, key)
	return nil
}

func (s *memory) List(_ context.Context, prefix string) (out []string, _ error) {
	defer s.enter()()
	for k := range s.values {
		if strings.HasPrefix(k, prefix) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (w *world) lease(ctx context.Context, _ string, wait time.Duration) (*Held, error) {
	for {
		w.mu.Lock()
		if w.holder == nil {
			break
		}
		freed := w.freed
		w.mu.Unlock()
		if wait == 0 {
			return nil, errors.New("held by another owner")
		}
		if w.waiting != nil {
			w.waiting <- struct{}{}
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer w.mu.Unlock()
	w.token++
	w.lost, w.freed = make(chan struct{}), make(chan struct{})
	h := &Held{Token: w.token, Lost: w.lost}
	h.Release = func() { w.free(h) }
	w.holder = h
	return h, nil
}

func (w *world) free(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == h {
		w.holder = nil
		close(w.lost)
		close(w.freed)
	}
}

// expire ends the lease as if the process of its owner had ended.
func (w *world) expire() { w.free(w.holder) }

func (w *world) leased() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holder != nil
}

func (w *world) is(err error, want string) {
	w.t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		w.t.Errorf("error %v, not %q", err, want)
	}
}

func (w *world) did(want string) {
	w.t.Helper()
	if got := w.took(); got != want {
		w.t.Errorf("did %q, not %q", got, want)
	}
}

// use connects an execution.
func (w *world) use(x *Execution[*link]) string {
	w.t.Helper()
	c, err := x.Conn(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return c.id
}

func (w *world) stored(key string) entry {
	w.t.Helper()
	e, err := w.manager(Reuse).get(w.t.Context(), key)
	w.is(err, "")
	return e
}

const key = shared + "default"

func TestVectors(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(w *world, ctx context.Context){
		"S1 one-shot": func(w *world, ctx context.Context) {
			for _, id := range []string{"a", "b"} {
				x := w.manager(OneShot).Execution(id)
				w.use(x)
				w.is(x.Dispose(ctx), "")
			}
			w.did("POST session-1, connect session-1, disconnect session-1, DELETE session-1, POST session-2, connect session-2, disconnect session-2, DELETE session-2")
		},
		"S2 reuse: start, info, close": func(w *world, ctx context.Context) {
			m := w.manager(Reuse)
			x := m.Execution("a")
			i, err := x.Start(ctx)
			w.is(err, "")
			if i == nil || i.SessionID != "session-1" || len(i.Targets) != 1 {
				w.t.Errorf("%+v", i)
			}
			if i, err := m.Info(ctx); err != nil || i == nil {
				w.t.Errorf("%+v, %v", i, err)
			}
			w.is(x.Close(ctx), "")
			if i, err := m.Info(ctx); err != nil || i != nil {
				w.t.Errorf("%+v, %v", i, err)
			}
			if log := w.took(); strings.Count(log, "POST") != 1 || strings.Count(log, "DELETE") != 1 {
				w.t.Error(log)
			}
		},
		"S3 reuse over another manager": func(w *world, ctx context.Context) {
			x := w.manager(Reuse).Execution("a")
			w.use(x)
			w.is(x.Dispose(ctx), "")
			w.use(w.manager(Reuse).Execution("b"))
			w.did("POST session-1, connect session-1, disconnect session-1, list session-1, connect session-1")
		},
		"S4 the list fails": func(w *world, ctx context.Context) {
			w.start(ctx)
			w.fail["list"] = errors.New("500")
			_, err := w.manager(Reuse).Execution("a").Conn(ctx)
			w.is(err, "500")
			if w.stored(key).SessionID != "session-1" || w.leased() {
				w.t.Error("the entry is gone, or the lease is held")
			}
		},
		"S5 the browser is gone": func(w *world, ctx context.Context) {
			w.start(ctx)
			delete(w.alive, "session-1")
			w.use(w.manager(Reuse).Execution("a"))
			w.did("list session-1, POST session-2, connect session-2")
		},
		"S6 close fails": func(w *world, ctx context.Context) {
			w.start(ctx)
			w.fail["DELETE"] = errors.New("500")
			w.is(w.manager(Reuse).Close(ctx), "500")
			if w.stored(key).SessionID != "session-1" || w.leased() {
				w.t.Error("the entry is gone, or the lease is held")
			}
			delete(w.alive, "session-1") // 404
			w.is(w.manager(Reuse).Close(ctx), "")
			if w.stored(key).SessionID != "" {
				w.t.Error("the entry is kept")
			}
		},
		"S7 close while leased": func(w *world, ctx context.Context) {
			x := w.manager(Reuse).Execution("a")
			w.use(x)
			w.took()
			w.waiting = make(chan struct{})
			closed := make(chan error)
			go func() { closed <- w.manager(Reuse).Close(ctx) }() // ends before the test
			<-w.waiting
			w.did("")
			w.is(x.Dispose(ctx), "")
			w.is(<-closed, "")
			w.did("disconnect session-1, DELETE session-1")
		},
		"S8 dynamic": func(w *world, ctx context.Context) {
			x := w.manager(Dynamic).Execution("a")
			w.use(x)
			w.is(x.Dispose(ctx), "")
			w.did("POST session-1, connect session-1, disconnect session-1, DELETE session-1")
			_, err := w.manager(Dynamic).Execution("b").Start(ctx)
			w.is(err, "")
			w.took()
			x = w.manager(Dynamic).Execution("c")
			w.use(x)
			w.is(x.Dispose(ctx), "")
			w.did("list session-2, connect session-2, disconnect session-2")
		},
		"S9 dynamic: the shared browser is gone": func(w *world, ctx context.Context) {
			w.start(ctx)
			delete(w.alive, "session-1")
			x := w.manager(Dynamic).Execution("a")
			w.use(x)
			if w.stored(key).SessionID != "" || w.leased() {
				w.t.Error("the entry is kept, or the lease is held")
			}
			w.is(x.Dispose(ctx), "")
			w.did("list session-1, POST session-2, connect session-2, disconnect session-2, DELETE session-2")
		},
		"S10 disposed twice": func(w *world, ctx context.Context) {
			x := w.manager(Reuse).Execution("a")
			w.use(x)
			w.fail["disconnect"] = errors.New("broken")
			w.is(x.Dispose(ctx), "broken")
			if w.leased() {
				w.t.Error("the lease is held")
			}
			w.is(x.Dispose(ctx), "")
			w.did("POST session-1, connect session-1, disconnect session-1")
		},
		"S11 sweep": func(w *world, ctx context.Context) {
			sweep := func(m Mode, idle time.Duration) string {
				s, err := w.manager(m).Sweep(ctx, idle)
				w.is(err, "")
				return fmt.Sprint(s)
			}
			if s := sweep(Reuse, time.Minute); s != "[]" {
				w.t.Error(s)
			}
			w.start(ctx)
			w.now = w.now.Add(9 * time.Minute)
			if s := sweep(Reuse, 0); s != "[]" {
				w.t.Error(s)
			}
			if s := sweep(OneShot, time.Nanosecond); s != "[]" {
				w.t.Error(s)
			}
			x := w.manager(Reuse).Execution("a") // uses it, which is not noted within a minute
			w.fail["connect"] = errors.New("later")
			_, err := x.Conn(ctx)
			w.is(err, "later")
			w.now = w.now.Add(10 * time.Minute)
			held, err := w.lease(ctx, "", 0)
			w.is(err, "")
			if s := sweep(Reuse, 0); s != "[]" { // somebody else uses it
				w.t.Error(s)
			}
			held.Release()
			w.took()
			if s := sweep(Reuse, 0); s != "[{"+key+" session-1}]" {
				w.t.Error(s)
			}
			w.did("DELETE session-1")
			if w.stored(key).SessionID != "" {
				w.t.Error("the entry is kept")
			}
		},
		"S13 two creations": func(w *world, ctx context.Context) {
			w.before = func(k string) { // another one is stored between the creation and the write
				w.before = nil
				w.alive["other"] = true
				w.is(w.manager(Reuse).put(ctx, k, &entry{SessionID: "other", CreatedAt: w.now, UpdatedAt: w.now}), "")
			}
			if id := w.use(w.manager(Reuse).Execution("a")); id != "other" {
				w.t.Error(id)
			}
			w.did("POST session-1, DELETE session-1, list other, connect other")
		},
		"S13 an entry that keeps changing": func(w *world, ctx context.Context) {
			m := w.manager(Reuse)
			m.o.Store = interfering{(*memory)(w), func(k string) {
				_, _ = (*memory)(w).PutIf(ctx, k, []byte("{}"), w.versions[k])
			}}
			_, err := m.Execution("a").Conn(ctx)
			w.is(err, "kept changing concurrently")
			if len(w.alive) != 0 || w.leased() {
				w.t.Errorf("left %v", w.alive)
			}
		},
		"S14 pause and resume": func(w *world, ctx context.Context) {
			x := w.manager(OneShot).Execution("a")
			w.use(x)
			w.is(x.Pause(ctx), "")
			x = w.manager(OneShot).Execution("a")
			w.use(x)
			w.did("POST session-1, connect session-1, disconnect session-1, list session-1, connect session-1")
		},
		"S15 gone at resume": func(w *world, ctx context.Context) {
			x := w.manager(OneShot).Execution("a")
			w.use(x)
			w.is(x.Pause(ctx), "")
			delete(w.alive, "session-1")
			w.took()
			_, err := w.manager(OneShot).Execution("a").Conn(ctx)
			w.is(err, "session-1 expired or was swept while this execution was paused")
			w.did("list session-1")
			if len(w.values) != 0 {
				w.t.Errorf("%v", w.values)
			}
		},
		"S16 promotion": func(w *world, ctx context.Context) {
			x := w.manager(Dynamic).Execution("a")
			w.use(x)
			i, err := x.Start(ctx)
			w.is(err, "")
			if i == nil || i.SessionID != "session-1" {
				w.t.Errorf("%+v", i)
			}
			w.is(x.Dispose(ctx), "")
			x = w.manager(Dynamic).Execution("b")
			if id := w.use(x); id != "session-1" {
				w.t.Error(id)
			}
			w.is(x.Close(ctx), "")
			w.is(x.Dispose(ctx), "")
			w.is(x.Dispose(ctx), "")
			if log := w.took(); strings.Count(log, "DELETE") != 1 || len(w.alive) != 0 {
				w.t.Error(log)
			}
		},
		"S17 promotion over another one": func(w *world, ctx context.Context) {
			x := w.manager(Dynamic).Execution("a")
			w.use(x)
			w.start(ctx)
			_, err := x.Start(ctx)
			w.is(err, "")
			w.did("DELETE session-2, list session-1")
			if w.stored(key).SessionID != "session-1" || !w.leased() {
				w.t.Error("it is not the shared one, or not leased")
			}
			w.is(x.Dispose(ctx), "")
			if !w.alive["session-1"] || w.leased() {
				w.t.Error("it is gone, or leased")
			}
		},
		"S18 sweep of an abandoned execution": func(w *world, ctx context.Context) {
			x := w.manager(OneShot).Execution("a")
			w.use(x)
			w.is(x.Pause(ctx), "")
			w.now = w.now.Add(executionKeep)
			w.took()
			s, err := w.manager(OneShot).Sweep(ctx, 0)
			w.is(err, "")
			if len(s) != 1 || s[0].SessionID != "session-1" {
				w.t.Errorf("%v", s)
			}
			w.did("DELETE session-1")
			_, err = w.manager(OneShot).Execution("b").Conn(ctx)
			w.is(err, "")
			w.now = w.now.Add(executionKeep - time.Second)
			_, err = w.manager(OneShot).Sweep(ctx, 0)
			w.is(err, "")
			_, err = w.manager(OneShot).Execution("a").Conn(ctx)
			w.is(err, "was swept")
		},
		"S18 an aged tombstone": func(w *world, ctx context.Context) {
			k := executions + "a"
			w.is(w.manager(OneShot).put(ctx, k, &entry{SessionID: "s", ClosedAt: w.now.Add(-executionKeep)}), "")
			s, err := w.manager(OneShot).Sweep(ctx, 0)
			w.is(err, "")
			if len(s) != 0 || len(w.values) != 0 {
				w.t.Errorf("%v, %v", s, w.values)
			}
			w.did("")
		},
		"a browser that could not be ended is ended by a sweep": func(w *world, ctx context.Context) {
			x := w.manager(OneShot).Execution("a")
			w.use(x)
			w.fail["DELETE"] = errors.New("500")
			w.is(x.Dispose(ctx), "")
			s, err := w.manager(OneShot).Sweep(ctx, 0)
			w.is(err, "")
			if len(s) != 1 || len(w.alive) != 0 || len(w.values) != 0 {
				w.t.Errorf("%v, %v, %v", s, w.alive, w.values)
			}
		},
		"S19 use is noted": func(w *world, ctx context.Context) {
			x := w.manager(Reuse).Execution("a")
			w.use(x)
			begin := w.now
			w.now = begin.Add(59 * time.Second)
			w.use(x)
			if !w.stored(key).UpdatedAt.Equal(begin) {
				w.t.Error("noted too often")
			}
			w.now = begin.Add(60 * time.Second)
			w.use(x)
			if !w.stored(key).UpdatedAt.Equal(w.now) {
				w.t.Error("not noted")
			}
		},
		"S19 two first uses": func(w *world, ctx context.Context) {
			wait := make(chan struct{})
			w.hold["POST"] = wait
			x := w.manager(OneShot).Execution("a")
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _, err := x.Conn(ctx); w.is(err, "") })
			}
			close(wait)
			both.Wait()
			w.did("POST session-1, connect session-1")
		},
		"S27 the holder closes": func(w *world, ctx context.Context) {
			x := w.manager(Reuse).Execution("a")
			w.use(x)
			w.is(x.Close(ctx), "")
			if id := w.use(x); id != "session-2" {
				w.t.Error(id)
			}
			i, err := x.Reset(ctx)
			w.is(err, "")
			if i == nil || i.SessionID != "session-3" {
				w.t.Errorf("%+v", i)
			}
			w.use(x)
			w.is(x.Dispose(ctx), "")
			if len(w.alive) != 1 || w.leased() {
				w.t.Errorf("%v", w.alive)
			}
		},
		"a browser that something else has made": func(w *world, ctx context.Context) {
			w.alive["made"] = true
			m := w.manager(Reuse)
			m.o.Adopt = func() string {
				if w.state("made") != nil {
					return ""
				}
				return "made"
			}
			x := m.Execution("a")
			if id := w.use(x); id != "made" {
				w.t.Error(id)
			}
			w.is(x.Close(ctx), "")
			if id := w.use(x); id != "session-1" {
				w.t.Error(id)
			}
			w.did("list made, connect made, disconnect made, DELETE made, POST session-1, connect session-1")
		},
		"S28 the owner dies": func(w *world, ctx context.Context) {
			old := w.manager(Reuse).Execution("a")
			w.use(old)
			late := *old.held
			w.expire()
			next := w.manager(Reuse).Execution("b")
			if id := w.use(next); id != "session-1" {
				w.t.Error(id)
			}
			w.took()
			_, err := w.manager(Reuse).end(ctx, &late)
			w.is(err, "another owner has taken over")
			_, err = old.Conn(ctx)
			w.is(err, "another owner has taken over")
			w.did("disconnect session-1") // the old owner's connection
			if !w.alive["session-1"] {
				w.t.Error("it is closed")
			}
			w.is(next.Dispose(ctx), "")
		},
		"a wait for the lease ends with its context": func(w *world, ctx context.Context) {
			x := w.manager(Reuse).Execution("a")
			w.use(x)
			ctx, cancel := context.WithCancel(ctx)
			w.waiting = make(chan struct{})
			failed := make(chan error)
			go func() { // ends before the test
				_, err := w.manager(Reuse).Execution("b").Conn(ctx)
				failed <- err
			}()
			<-w.waiting
			cancel()
			w.is(<-failed, "canceled")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newWorld(t), t.Context())
		})
	}
}

// interfering is a store in which somebody else writes before each write.
type interfering struct {
	*memory
	write func(key string)
}

func (s interfering) PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	s.write(key)
	return s.memory.PutIf(ctx, key, value, version)
}

// start makes a shared browser, and forgets how.
func (w *world) start(ctx context.Context) {
	w.t.Helper()
	_, err := w.manager(Reuse).Execution("start").Start(ctx)
	w.is(err, "")
	w.took()
}
