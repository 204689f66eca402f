package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/secret"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
)

// folders are the places for the files of a host.
type folders struct {
	threads string // contains the store
	base    string // contains everything else: locks, sockets, data of plugins
	own     string // is removed when the host closes; "": none
}

// chooseFolders returns the folders of a host: its home. An ephemeral host has a folder of its own for its threads, and for everything
// else if its home is not writable.
func chooseFolders(home string, ephemeral bool) (folders, error) {
	f := folders{threads: home, base: home}
	if !ephemeral {
		return f, nil
	}
	dir, err := os.MkdirTemp("", "gantry-")
	if err != nil {
		return f, hint.With(fmt.Errorf("create a folder for an ephemeral thread: %w", err), "set TMPDIR to a writable folder")
	}
	f.threads, f.own = dir, dir
	if !Writable(home) {
		f.base = dir
	}
	return f, nil
}

// ofPlugin returns the folders of a plugin: for data, and for what can be fetched again.
func (f folders) ofPlugin(label string) (out []string) {
	for _, name := range []string{"data", "cache"} {
		if dir, err := filepath.EvalSymlinks(filepath.Join(f.base, name, label)); err == nil {
			out = append(out, dir)
		}
	}
	return out
}

// Writable reports whether files can be created in a folder.
func Writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return false
	}
	name := f.Name()
	return f.Close() == nil && os.Remove(name) == nil
}

// openStore opens the store of threads.
func openStore(ctx context.Context, opts Options, f folders, onDegraded func(error)) (*store.Store, error) {
	// Locks are always in the base folder, because the sockets of threads are there as well.
	cfg := store.Config{
		Path: filepath.Join(f.threads, "threads.db"), ArtifactDir: filepath.Join(f.threads, "artifacts"),
		LockDir: filepath.Join(f.base, "locks"), Logger: opts.Logger.Named("store"), OnDegraded: onDegraded,
	}
	if !opts.Ephemeral {
		cfg.Database = opts.Database
	}
	if opts.tuneStore != nil {
		opts.tuneStore(&cfg)
	}
	return store.Open(ctx, cfg)
}

// stateStore opens the store of plugins' state when it is first needed.
type stateStore struct {
	database store.Database
	dir      string

	mu    sync.Mutex
	store *pluginstate.Store
}

// open returns the store.
func (s *stateStore) open(ctx context.Context) (*pluginstate.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	opened, err := pluginstate.Open(ctx, s.database.Config(filepath.Join(s.dir, "state.db")), filepath.Join(s.dir, "hosts"))
	if err != nil {
		return nil, err
	}
	s.store = opened
	return opened, nil
}

func (s *stateStore) close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	err := s.store.Close()
	s.store = nil
	return err
}

// vaultOf returns the store of plugins' secrets.
func vaultOf(opts Options) service.Vault {
	if opts.Vault != nil {
		return opts.Vault
	}
	return secret.Open(filepath.Join(opts.Home, "secrets"), secret.System(opts.Home, os.Getenv))
}

// StoreHealth publishes in every thread, once for each change, that the store does not accept events (err) or works again (nil). The
// owner of a shared store calls it.
func (h *Host) StoreHealth(err error) {
	n := event.Notice{Level: "info", Text: "the store works again; no events were lost"}
	if err != nil {
		n = storeFailed(err)
	}
	for _, r := range h.all() {
		h.mu.Lock()
		changed := r.storeDown != (err != nil)
		r.storeDown = err != nil
		h.mu.Unlock()
		if changed {
			r.publish(n)
		}
	}
}

// storeNotices returns a notice if the store was degraded when the thread started.
func (r *running) storeNotices() []event.Notice {
	h := r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.store.Degraded()
	if err == nil || r.storeDown {
		return nil
	}
	r.storeDown = true
	return []event.Notice{storeFailed(err)}
}

func storeFailed(err error) event.Notice {
	text, next := hint.Split(err)
	if next == "" {
		next = "check the disk that holds it"
	}
	return event.Notice{
		Level: "error", Text: "the store can't save events: " + text,
		Next: strings.ToUpper(next[:1]) + next[1:] + ". Until then, calls with side effects are not started.",
	}
}
