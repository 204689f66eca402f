// Package hub gives front ends access to threads, wherever they are: running in this process, running in another process of the user,
// or only stored.
//
// It owns which threads there are and how each is reached, the hosts of the workspaces in which they run, and when an idle thread is
// unloaded. It does not know how front ends present a thread, which protocol they speak, or how a turn works.
//
// Start with [New], [Hub.Start] and [Thread.Follow].
package hub

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/singleflight"
)

// Defaults of [Config].
const (
	DefaultIdleTimeout = 30 * time.Minute // compatible with codex
	DefaultMaxIdle     = 256
)

// Config configures a hub. Load, Open and Store are required.
type Config struct {
	// Home is gantry's home folder, absolute.
	Home string
	// Store is the store of threads, which all hosts share. The hub sets OnDegraded.
	Store store.Config
	// Lazy: the store is opened when it is needed. By default, New opens it.
	Lazy bool
	// Ephemeral hubs run only ephemeral threads. The store is opened when a stored thread is read, and need not be writable.
	Ephemeral bool
	// OneTurn: the hub is closed after the turn that the caller starts, so mail starts no turns from then on.
	OneTurn bool
	// Load reads the configuration of a workspace. It never changes what the user trusts.
	Load func(ctx context.Context, w Workspace) (*config.Config, error)
	// Check is Load with a text in the place of the user's file; nil: changes can't be checked.
	Check func(ctx context.Context, w Workspace, user []byte) (*config.Config, error)
	// Open opens the host of a workspace with the configuration that Load returned. The host must use what is shared.
	Open func(ctx context.Context, w Workspace, cfg *config.Config, shared host.Shared) (*host.Host, error)
	// Environ is the environment of hooks: their programs are looked up in it.
	Environ []string
	// IdleTimeout is how long a thread that runs no turn and has no followers stays loaded; 0: [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// MaxIdle is the number of loaded threads beyond which idle ones without followers are unloaded after a minute, those that have been
	// idle longest first; 0: [DefaultMaxIdle].
	MaxIdle int
	Logger  hclog.Logger
	// Serve serves clients of other processes that connect to the socket of a thread and speak the app server's protocol; see
	// [threadsocket.Config]. nil: they are refused.
	Serve func(ctx context.Context, conn net.Conn, launched bool)
}

// Workspace is what threads share a host for. Threads whose workspaces have the same effective configuration share a host.
type Workspace struct {
	// Dir is the folder whose configuration applies, absolute. It is also the working folder of a new thread.
	Dir string
	// Sets are settings that override the configuration, as "NAME=VALUE", like the flag -c.
	Sets []string
	// Profile is the name of a profile; "": the configured one.
	Profile string
	// WritableRoots are folders that commands may write in addition to the configured ones, absolute.
	WritableRoots []string
	// Ephemeral threads are not stored: they end with the hub, and are not listed.
	Ephemeral bool
}

// StartParams describe a new thread. Empty fields have the values of the workspace's configuration.
type StartParams struct {
	Workspace
	Model  string // label of a model block, or PROVIDER/NAME
	Source string // the kind of front end: "exec", "tui", "vscode", ...
	Name   string
	// Effort is the reasoning effort.
	Effort string
	// Approval and Sandbox apply as long as the thread is loaded.
	Approval, Sandbox string
	// BaseInstructions replace the base instructions of the model; DeveloperInstructions are added to the context.
	BaseInstructions, DeveloperInstructions string
	// Tools are tools that clients of the thread implement; see [Thread.ServeTools]. An invalid one is an error with the code [Invalid].
	Tools []event.ClientTool
}

// ResumeParams describe how a stored thread continues. They have no effect on a thread that is already running, here or elsewhere.
type ResumeParams struct {
	// Workspace: if Dir is empty, it is the folder of the thread's last turn. If Ephemeral is set, a copy continues, and the stored
	// thread does not change.
	Workspace
	// Fork makes the copy in an ephemeral workspace a fork, with an ID of its own; nil: it has the same ID, so nobody may run the thread.
	Fork *Fork
	// Settings change the thread's settings; empty fields change nothing.
	Settings event.Settings
}

// Fork selects the part of a thread that a fork copies.
type Fork struct {
	// Through is the last turn that is copied, Before the first one that is not. At most one is set; neither: the whole thread. A turn
	// is identified by its ID, a prefix of it, or its number among the turns that were not reverted.
	Through, Before string
	Name            string // of the fork; "": that of the thread
}

// Reverted describes reverted turns.
type Reverted struct {
	Before event.TurnID // the first reverted turn
	Turns  int
	Usage  event.Tokens // of the thread after the revert
}

// Hub is every thread that can be reached. Its methods may be called concurrently.
type Hub struct {
	Reader
	Editor
	cfg     Config
	log     hclog.Logger
	stored  func() (*store.Store, error) // opens the store once
	monitor *monitor
	loads   singleflight.Group // of threads, by their ID
	others  *others
	sockets *threadsocket.Server

	life context.Context // ends when the hub closes
	end  context.CancelCauseFunc
	work sync.WaitGroup
	wake chan struct{} // one slot: there may be a thread to unload

	mu struct {
		sync.Mutex
		closing bool
		threads map[event.ThreadID]*local        // that run here
		moving  map[event.ThreadID]*Thread       // from one host to another
		held    map[event.ThreadID]chan struct{} // that are being loaded, or changed in the store; closed at the end of it
		spaces  map[string]*space                // by their key
	}
	closed func() error // does the work of Close once
}

// New opens the store, except for an ephemeral hub. Hosts are opened when a thread needs them.
func New(ctx context.Context, cfg Config) (*Hub, error) {
	cfg.IdleTimeout, cfg.MaxIdle = cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout), cmp.Or(cfg.MaxIdle, DefaultMaxIdle)
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	h := &Hub{cfg: cfg, log: cfg.Logger.Named("hub"), wake: make(chan struct{}, 1)}
	h.Reader, h.Editor = Reader{h}, Editor{h}
	h.mu.threads, h.mu.moving, h.mu.spaces = map[event.ThreadID]*local{}, map[event.ThreadID]*Thread{}, map[string]*space{}
	h.mu.held = map[event.ThreadID]chan struct{}{}
	h.others = newOthers(h)
	h.sockets = threadsocket.NewServer(threadsocket.Config{Home: cfg.Home, Logger: cfg.Logger, Serve: cfg.Serve, Use: usedBy(h)})
	h.monitor = newMonitor(func() { notify(h.wake) })
	h.life, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
	h.closed = sync.OnceValue(h.shutDown)
	cfg.Store.OnDegraded = h.storeHealth
	h.stored = sync.OnceValues(func() (*store.Store, error) {
		h.mu.Lock()
		closing := h.mu.closing
		h.mu.Unlock()
		if closing {
			return nil, errClosed
		}
		return openStore(context.WithoutCancel(ctx), cfg.Store, cfg.Ephemeral)
	})
	if !cfg.Ephemeral && !cfg.Lazy {
		if _, err := h.stored(); err != nil {
			return nil, err
		}
	}
	h.work.Go(h.unloadIdle) // ends with the hub
	return h, nil
}

// openStore opens the store. That of an ephemeral hub may be read-only.
func openStore(ctx context.Context, cfg store.Config, ephemeral bool) (*store.Store, error) {
	s, err := store.Open(ctx, cfg)
	if ephemeral && store.IsUnwritable(err) {
		cfg.ReadOnly = true
		return store.Open(ctx, cfg)
	}
	return s, err
}

// Close ends all threads of this process, interrupting their turns, and closes their hosts and the store. Threads of other processes
// continue. Close is idempotent.
func (h *Hub) Close() error { return h.closed() }

// closeTimeout is the time limit for closing the store after the hosts.
const closeTimeout = 10 * time.Second

func (h *Hub) shutDown() error {
	h.mu.Lock()
	h.mu.closing = true
	spaces := slices.Collect(maps.Values(h.mu.spaces))
	h.mu.Unlock()
	h.end(errClosed)
	var closing sync.WaitGroup
	errs := make([]error, len(spaces))
	for i, s := range spaces {
		closing.Go(func() { // waited for below
			<-s.ready
			if s.host != nil {
				errs[i] = s.host.Close()
			}
		})
	}
	closing.Go(h.others.close) // waited for below
	closing.Wait()
	errs = append(errs, h.sockets.Close())
	h.work.Wait()
	h.monitor.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if s, err := h.stored(); err == nil { // otherwise it was never opened, and it will not be any more
		errs = append(errs, s.Close(ctx))
	}
	return errors.Join(errs...)
}

// Configuration loads the configuration of a workspace.
func (h *Hub) Configuration(ctx context.Context, w Workspace) (*config.Config, error) {
	return h.cfg.Load(ctx, w)
}

// CheckConfiguration loads the configuration that a workspace would have if the user's file had this text.
func (h *Hub) CheckConfiguration(ctx context.Context, w Workspace, user []byte) (*config.Config, error) {
	if h.cfg.Check == nil {
		return nil, errors.New("this hub can't check configurations")
	}
	return h.cfg.Check(ctx, w, user)
}

// Start starts a new thread in this process.
func (h *Hub) Start(ctx context.Context, p StartParams) (*Thread, error) {
	s, err := h.enter(ctx, p.Workspace)
	if err != nil {
		return nil, err
	}
	t, err := s.host.StartThread(ctx, host.Params{
		Cwd: p.Dir, Model: p.Model, Source: p.Source, Name: p.Name, Instructions: p.BaseInstructions, DeveloperInstructions: p.DeveloperInstructions,
		Tools: p.Tools, Change: thread.Change{Reasoning: p.Effort, Approval: p.Approval, Sandbox: p.Sandbox},
	})
	if err != nil {
		h.leave(s)
		return nil, err
	}
	l, err := h.register(s, t, nil)
	if err != nil {
		return nil, err
	}
	return l.facade, nil
}

// StartReview starts a new thread for a review of changes in its folder. Nothing is started if there is nothing to review. begin starts
// the review's turn.
func (h *Hub) StartReview(ctx context.Context, p StartParams, target ReviewTarget) (t *Thread, begin func(context.Context) (Accepted, error), err error) {
	s, err := h.enter(ctx, p.Workspace)
	if err != nil {
		return nil, nil, err
	}
	defer h.leave(s)
	task, err := s.host.Reviewer().Task(ctx, p.Dir, target)
	if err != nil {
		return nil, nil, err
	}
	if t, err = h.Start(ctx, p); err != nil {
		return nil, nil, err
	}
	return t, func(ctx context.Context) (Accepted, error) {
		r, err := t.current(ctx)
		if err != nil {
			return Accepted{}, err
		}
		return r.(*local).submitAs(ctx, thread.Submission{Task: task})
	}, nil
}

// Resume returns a thread that runs, here or in another process. If no process runs the thread, it is loaded into this one: calls and
// turns that were left open are closed first.
func (h *Hub) Resume(ctx context.Context, id event.ThreadID, p ResumeParams) (*Thread, error) {
	if p.Ephemeral {
		return h.resumeCopy(ctx, id, p)
	}
	if t, err := reachOpen(ctx, h, id); err == nil {
		return t, nil
	} else if unreachable(err) {
		return nil, err
	}
	// Other callers may wait for the same thread, so it is loaded even if this one gives up.
	loading := h.loads.DoChan(string(id), func() (any, error) {
		if !h.begin() {
			return nil, errClosed
		}
		defer h.work.Done()
		return h.load(context.WithoutCancel(ctx), id, p)
	})
	select {
	case r := <-loading:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*Thread), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin adds the caller to the work that Close waits for, until it calls h.work.Done. It returns false if the hub is closing.
func (h *Hub) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closing {
		return false
	}
	h.work.Add(1)
	return true
}

// load starts over loadTries times, with loadPause in between, because the process that ran the thread has ended in the meantime, or
// another one has been faster. When a process dies, the system closes its sockets and releases its locks one after another.
const (
	loadTries = 20
	loadPause = 25 * time.Millisecond
)

// load loads a stored thread.
func (h *Hub) load(ctx context.Context, id event.ThreadID, p ResumeParams) (*Thread, error) {
	var locked *store.LockedError
	s, err := h.stored()
	if err != nil {
		return nil, err
	}
	for range loadTries {
		if t, err := reachOpen(ctx, h, id); err == nil {
			return t, nil
		} else if unreachable(err) {
			return nil, err
		}
		info, err := s.Thread(ctx, string(id))
		if err != nil {
			return nil, err
		}
		if !info.Archived.IsZero() {
			return nil, &branch.ArchivedError{Thread: id}
		}
		w := p.Workspace
		if w.Dir == "" {
			w.Dir = cmp.Or(p.Settings.Cwd, info.Cwd)
		}
		l, err := h.loadIn(ctx, w, info.ID, nil)
		if e, ok := errors.AsType[*store.LockedError](err); ok {
			locked = e
			select {
			case <-time.After(loadPause):
				continue
			case <-h.life.Done():
				return nil, errClosed
			}
		}
		if err != nil {
			return nil, err
		}
		return l.facade, l.configure(ctx, p.Settings)
	}
	return nil, locked
}

// loadIn loads a thread into the host of a workspace. facade is a thread that moves there; nil: it is not in this process.
func (h *Hub) loadIn(ctx context.Context, w Workspace, id event.ThreadID, facade *Thread) (*local, error) {
	release, err := h.hold(ctx, id)
	if err != nil {
		return nil, err
	}
	defer release()
	st, err := h.stored()
	if err != nil {
		return nil, err
	}
	if owner, held, err := st.Holder(ctx, id); err != nil {
		return nil, err
	} else if held {
		return nil, &store.LockedError{Thread: id, Owner: owner} // without opening a host
	}
	s, err := h.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	t, err := s.host.ResumeThread(ctx, id)
	if err != nil {
		h.leave(s)
		return nil, err
	}
	return h.register(s, t, facade)
}

// hold waits until this process neither loads nor changes a stored thread, and keeps it from doing so until the returned function is
// called.
func (h *Hub) hold(ctx context.Context, id event.ThreadID) (release func(), err error) {
	for {
		h.mu.Lock()
		held := h.mu.held[id]
		if held == nil {
			held = make(chan struct{})
			h.mu.held[id] = held
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.mu.held, id)
				close(held)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Find returns a thread that runs, here or in another process. It loads nothing.
func (h *Hub) Find(ctx context.Context, id event.ThreadID) (*Thread, bool) {
	t, err := h.Reach(ctx, id)
	if err != nil {
		h.log.Debug("running thread not found", "thread", id, "err", err)
	}
	return t, err == nil
}

// Reach is like [Hub.Find], but says why there is no thread: if no process runs it, the error has the code [Closed].
func (h *Hub) Reach(ctx context.Context, id event.ThreadID) (*Thread, error) {
	for {
		h.mu.Lock()
		l := h.mu.threads[id]
		var settled chan struct{}
		moving := h.mu.moving[id]
		if l != nil {
			settled = l.st.unloading
			if l.facade.moves() {
				moving = l.facade
			}
		}
		h.mu.Unlock()
		switch {
		case moving != nil:
			return moving, nil
		case l == nil:
			r, err := h.others.reach(ctx, id)
			if err == nil {
				return r.facade, nil
			}
			if !errors.Is(err, errOwn) {
				return nil, err
			}
			h.mu.Lock()
			l, settled = h.mu.threads[id], h.mu.held[id]
			h.mu.Unlock()
			if l != nil { // it was loaded in the meantime
				continue
			}
			if settled == nil {
				return nil, err
			}
		case settled == nil:
			return l.facade, nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reachOpen is like Reach, but doesn't return a thread of a process that has just ended it, or has just ended.
func reachOpen(ctx context.Context, h *Hub, id event.ThreadID) (*Thread, error) {
	for {
		t, err := h.Reach(ctx, id)
		if err != nil || !t.Remote() {
			return t, err
		}
		if _, err := t.Settings(ctx); err == nil || ErrorOf(err).Code != Closed {
			return t, nil
		}
		select {
		case <-t.Done(): // soon: the subscription that follows its state ends as well
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Loaded returns the threads that run here, sorted.
func (h *Hub) Loaded() []event.ThreadID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.mu.threads))
}

// Unload ends a thread that runs in this process, and interrupts its turn. It does nothing if the thread does not run here.
func (h *Hub) Unload(ctx context.Context, id event.ThreadID) error {
	h.mu.Lock()
	l := h.mu.threads[id]
	if l != nil && !h.mu.closing {
		if l.st.unloading == nil {
			l.st.unloading = make(chan struct{})
		}
		h.work.Go(func() { l.space.host.CloseThread(id, errClosed) }) // ends when the thread has
	}
	h.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Status returns the state of a thread. For threads of other processes it is known while a [Hub.Watch] is active or after the thread was
// found; otherwise, and for unknown threads, it is [NotLoaded].
func (h *Hub) Status(id event.ThreadID) Status { return h.monitor.status(id) }

// storeHealth tells all threads that the store does not accept events (err), or works again (nil).
func (h *Hub) storeHealth(err error) {
	h.mu.Lock()
	spaces := slices.Collect(maps.Values(h.mu.spaces))
	h.mu.Unlock()
	for _, s := range spaces {
		select {
		case <-s.ready:
			if s.host != nil && !s.workspace.Ephemeral {
				s.host.StoreHealth(err)
			}
		default: // a thread that starts later reports it
		}
	}
}

// notify wakes a waiter. The channel has room for one token.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
