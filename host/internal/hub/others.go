package hub

import (
	"context"
	"errors"
	"fmt"
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
	"golang.org/x/sync/singleflight"
)

const (
	// maxRelays limits the threads of other processes whose states are followed, because each needs a connection. Others are reached
	// when a client asks for them.
	maxRelays = 256
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
	}
}

func newOthers(h *Hub) *others {
	o := &others{hub: h}
	o.mu.relays = map[event.ThreadID]*relay{}
	return o
}

// close ends all relays and waits.
func (o *others) close() {
	o.mu.Lock()
	o.mu.closed = true
	relays := slices.Collect(maps.Values(o.mu.relays))
	o.mu.Unlock()
	for _, r := range relays {
		r.close()
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
		return nil, fmt.Errorf("thread %s belongs to this process", id)
	}
	r = &relay{hub: h, id: id, over: make(chan struct{})}
	if r.path, err = runsocket.Path(h.cfg.Home, id); err != nil {
		return nil, err
	}
	if r.watch, err = r.dial(ctx); err != nil {
		return nil, err
	}
	initial, err := r.subscribe(ctx)
	if err != nil {
		_ = r.watch.Close() // nothing is lost
		return nil, r.asked(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.closed {
		return nil, errors.Join(errClosed, r.watch.Close())
	}
	o.mu.relays[id] = r
	h.monitor.loaded(id, initial)
	h.work.Go(r.follows) // ends with the connection
	return r, nil
}

// notice follows the threads that other processes run, until the hub closes. Their sockets are in the run folder, whose changes wake it.
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
			o.noticed(e.Name(), slots)
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
			if e.Has(fsnotify.Chmod) { // the file is created before anyone listens, and its mode is changed after that
				o.noticed(filepath.Base(e.Name), slots)
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

// noticed connects to the process that listens on a socket of the run folder, unless it is this one.
func (o *others) noticed(name string, slots chan struct{}) {
	name, ok := strings.CutSuffix(name, ".sock")
	id, err := event.ParseThreadID(name)
	if !ok || err != nil {
		return
	}
	h := o.hub
	h.mu.Lock()
	mine := h.mu.threads[id] != nil
	h.mu.Unlock()
	o.mu.Lock()
	known := o.mu.relays[id] != nil || len(o.mu.relays) >= maxRelays
	o.mu.Unlock()
	if mine || known {
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
