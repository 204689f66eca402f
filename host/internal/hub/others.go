package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"golang.org/x/sync/singleflight"
)

const (
	// maxRelays limits the threads of other processes whose states are followed. Others are reached when a client asks for them.
	maxRelays = 4096
	// maxConnecting limits how many are connected to at once.
	maxConnecting = 8
)

// others are the threads that other processes run, as far as they were noticed or asked for.
type others struct {
	hub      *Hub
	dials    singleflight.Group // by thread
	noticing sync.Once          // starts notice

	mu struct {
		sync.Mutex
		closed bool
		relays map[event.ThreadID]*relay
		// processes that run them, by the path of their socket.
		processes map[string]*process
	}
}

func newOthers(h *Hub) *others {
	o := &others{hub: h}
	o.mu.relays, o.mu.processes = map[event.ThreadID]*relay{}, map[string]*process{}
	return o
}

// close ends all relays and waits.
func (o *others) close() {
	o.mu.Lock()
	o.mu.closed = true
	relays := slices.Collect(maps.Values(o.mu.relays))
	processes := slices.Collect(maps.Values(o.mu.processes))
	o.mu.Unlock()
	for _, r := range relays {
		r.close()
	}
	for _, p := range processes { // that are followed
		if <-p.ready; p.conn != nil {
			p.conn.Close()
		}
	}
}

func (o *others) forget(r *relay) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.relays, r.id)
}

// reach returns the relay to a thread that another process runs, connecting if necessary.
func (o *others) reach(ctx context.Context, id event.ThreadID) (*relay, error) {
	o.mu.Lock()
	r := o.mu.relays[id]
	o.mu.Unlock()
	if r != nil {
		return r, nil
	}
	made, err, _ := o.dials.Do(string(id), func() (any, error) {
		if !o.hub.begin() {
			return nil, errClosed
		}
		defer o.hub.work.Done()
		return o.connect(context.WithoutCancel(ctx), id)
	})
	if err != nil {
		return nil, err
	}
	return made.(*relay), nil
}

// errOwn says that this process holds the lock of a thread that it does not run, or not yet.
var errOwn = errors.New("it belongs to this process")

// connect connects to the process that runs a thread.
func (o *others) connect(ctx context.Context, id event.ThreadID) (*relay, error) {
	o.mu.Lock()
	r := o.mu.relays[id]
	o.mu.Unlock()
	if r != nil {
		return r, nil // another caller has just connected
	}
	h := o.hub
	stored, err := h.stored()
	if err != nil {
		return nil, err
	}
	owner, held, err := stored.Holder(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !held:
		return nil, gone(id)
	case owner.Machine != "":
		return nil, &store.LockedError{Thread: id, Owner: owner}
	case owner.PID == os.Getpid():
		return nil, fmt.Errorf("thread %s: %w", id, errOwn)
	}
	r = &relay{hub: h, id: id, over: make(chan struct{})}
	r.relayedGoal = relayedGoal{r}
	if r.process, r.leave, err = o.process(ctx, id); err != nil {
		return nil, r.asked(err)
	}
	r.client = r.process.conn.Thread(id)
	initial, err := r.subscribe(ctx)
	if err != nil {
		r.disconnect()
		return nil, r.asked(err)
	}
	o.mu.Lock()
	closed := o.mu.closed
	if !closed {
		o.mu.relays[id] = r
		h.monitor.loaded(id, initial)
		h.work.Go(r.follows) // ends with the subscription
	}
	o.mu.Unlock()
	if closed {
		r.disconnect()
		return nil, errClosed
	}
	return r, nil
}

// notice follows the threads that other processes run, until the hub closes. The links to their sockets are in the run folder, whose
// changes wake it.
func (o *others) notice() {
	h := o.hub
	path, err := runsocket.Path(h.cfg.Home, event.NewThreadID())
	if err != nil {
		h.log.Warn("threads of other processes are not noticed", "err", err)
		return
	}
	dir := filepath.Dir(path)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() {
			if err := watcher.Close(); err != nil {
				h.log.Debug("run folder not closed", "err", err)
			}
		}()
		err = watcher.Add(dir)
	}
	if err != nil {
		h.log.Warn("threads of other processes are not noticed", "err", err)
		return
	}
	slots := make(chan struct{}, maxConnecting)
	scan := func() {
		entries, err := os.ReadDir(dir) // after Add, so that none is missed
		if err != nil {
			h.log.Warn("run folder not read", "err", err)
		}
		for _, e := range entries {
			o.noticed(filepath.Join(dir, e.Name()), slots)
		}
	}
	scan()
	for {
		select {
		case <-h.life.Done():
			return
		case e, ok := <-watcher.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Create) { // a link, which is made when clients can connect
				o.noticed(e.Name, slots)
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			h.log.Debug("changes of the run folder missed", "err", err)
			scan()
		}
	}
}

// noticed connects to the process to which a link of the run folder leads, unless it is this one.
func (o *others) noticed(link string, slots chan struct{}) {
	name, ok := strings.CutSuffix(filepath.Base(link), ".sock")
	id, err := event.ParseThreadID(name)
	if !ok || err != nil || o.hub.sockets.Owns(link) {
		return
	}
	h := o.hub
	o.mu.Lock()
	known := o.mu.relays[id] != nil || len(o.mu.relays) >= maxRelays
	o.mu.Unlock()
	if known {
		return
	}
	select {
	case slots <- struct{}{}:
	case <-h.life.Done():
		return
	}
	h.work.Go(func() { // ends when the process answers or is given up
		defer func() { <-slots }()
		r, err := o.reach(context.WithoutCancel(h.life), id)
		switch {
		case err != nil:
			h.log.Debug("thread of another process not reached", "thread", id, "err", err)
		case r.facade.started.Parent != "": // it works for another thread, so clients don't list it
			r.disconnect()
		}
	})
}

// process is another process, whose threads share a connection. It is closed when no one needs it.
type process struct {
	path  string        // of its socket
	ready chan struct{} // closed when conn or err is set
	conn  *threadsocket.Process
	err   error
	uses  int // guarded by the mutex of others
}

// process returns the process that runs a thread, until release is called, which may be called more than once.
func (o *others) process(ctx context.Context, id event.ThreadID) (_ *process, release func(), err error) {
	link, err := runsocket.Path(o.hub.cfg.Home, id)
	if err != nil {
		return nil, nil, err
	}
	path := link // of a process of an older version, which has a socket for each thread
	if to, err := os.Readlink(link); err == nil {
		path = filepath.Join(filepath.Dir(link), filepath.Base(to))
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, threadsocket.ErrGone
	}
	o.mu.Lock()
	if o.mu.closed {
		o.mu.Unlock()
		return nil, nil, errClosed
	}
	p, found := o.mu.processes[path]
	if found && p.failed() {
		found = false // those that use it release it soon
	}
	if !found {
		p = &process{path: path, ready: make(chan struct{})}
		o.mu.processes[path] = p
	}
	p.uses++
	o.mu.Unlock()
	release = sync.OnceFunc(func() { o.release(p) })
	if !found {
		p.conn, p.err = threadsocket.Connect(ctx, path)
		close(p.ready)
	}
	select {
	case <-p.ready:
		err = p.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return p, release, nil
}

// retain keeps a process that is in use. ok is false if it is not any more.
func (o *others) retain(p *process) (release func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.uses == 0 || o.mu.closed {
		return nil, false
	}
	p.uses++
	return sync.OnceFunc(func() { o.release(p) }), true
}

// release closes the connection to a process that no one needs.
func (o *others) release(p *process) {
	o.mu.Lock()
	p.uses--
	last := p.uses == 0
	if o.mu.processes[p.path] == p && (last || p.failed()) {
		delete(o.mu.processes, p.path) // the next caller connects again
	}
	o.mu.Unlock()
	if last && p.conn != nil {
		p.conn.Close()
	}
}

// failed reports whether the connection can't be used.
func (p *process) failed() bool {
	select {
	case <-p.ready:
	default:
		return false
	}
	if p.err != nil {
		return true
	}
	select {
	case <-p.conn.Done():
		return true
	default:
		return false
	}
}
