package hub

import (
	"context"
	"errors"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// State is what a thread does now.
type State string

// The states of a thread.
const (
	NotLoaded State = "not_loaded" // no process runs it
	Idle      State = "idle"       // it waits for input
	Active    State = "active"     // a turn runs
	Failed    State = "failed"     // it waits for input, and its last turn failed
)

// Status is the state of a thread, and what a running turn waits for.
type Status struct {
	State State
	Turn  event.TurnID // that runs
	// WaitingOnApproval: an approval or a request for permissions is pending. WaitingOnInput: another question to the user is.
	WaitingOnApproval, WaitingOnInput bool
	Remote                            bool // another process runs the thread
}

// ChangeKind is the kind of a [Change].
type ChangeKind string

// Kinds of changes.
const (
	ThreadLoaded     ChangeKind = "loaded" // it started or was resumed, here or in another process
	ThreadClosed     ChangeKind = "closed" // it has ended or was unloaded
	ThreadStatus     ChangeKind = "status"
	ThreadNamed      ChangeKind = "named"
	ThreadArchived   ChangeKind = "archived"
	ThreadUnarchived ChangeKind = "unarchived"
	ThreadReverted   ChangeKind = "reverted"
	ThreadDeleted    ChangeKind = "deleted"
)

// Change is a change in the life of a thread.
type Change struct {
	Kind   ChangeKind
	Thread event.ThreadID
	Status Status // after the change
	Name   string // of ThreadNamed
}

// Changes are the changes of all threads, in order for each thread. Only one goroutine may call Next.
type Changes struct{ watcher *watcher }

// Next waits for the next change. If the caller was too slow, the error has the code [Lagged], and the caller should watch again and
// read the states. After the hub has closed, the error has the code [Closed].
func (c *Changes) Next(ctx context.Context) (Change, error) { return c.watcher.next(ctx) }

// Close ends watching. It is idempotent.
func (c *Changes) Close() { c.watcher.close() }

// watchBound is how many changes wait for a watcher; beyond it the watcher is ended.
const watchBound = 4096

var errLagged = errors.New("the reader of the threads' changes fell behind")

// watcher is the queue of a reader of changes.
type watcher struct {
	monitor *monitor
	wake    chan struct{}

	mu struct {
		sync.Mutex
		queue []Change
		err   error // set once; returned after the queue
	}
}

// Watch reports the changes of threads from now on. From the first call on, it includes threads of other processes; those that are already
// running are reported as loaded.
func (h *Hub) Watch() *Changes {
	w := h.monitor.watch()
	h.others.noticing.Do(func() {
		if h.begin() {
			go func() { // waited for by Close
				defer h.work.Done()
				h.others.notice()
			}()
		}
	})
	return &Changes{w}
}

func (m *monitor) watch() *watcher {
	w := &watcher{monitor: m, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		w.mu.err = errClosed
		return w
	}
	m.mu.watchers[w] = struct{}{}
	return w
}

// offer queues a change. The monitor's mutex is held.
func (w *watcher) offer(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.err != nil:
		return
	case len(w.mu.queue) >= watchBound:
		w.mu.err = errLagged
	default:
		w.mu.queue = append(w.mu.queue, c)
	}
	notify(w.wake)
}

func (w *watcher) next(ctx context.Context) (Change, error) {
	for {
		w.mu.Lock()
		if len(w.mu.queue) > 0 {
			c := w.mu.queue[0]
			w.mu.queue = w.mu.queue[1:]
			w.mu.Unlock()
			return c, nil
		}
		err := w.mu.err
		w.mu.Unlock()
		if err != nil {
			return Change{}, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return Change{}, context.Cause(ctx)
		}
	}
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err == nil {
		w.mu.err = err
	}
	notify(w.wake)
}

func (w *watcher) close() {
	w.monitor.mu.Lock()
	delete(w.monitor.mu.watchers, w)
	w.monitor.mu.Unlock()
	w.end(errClosed)
}
