package workbench

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Limits of watches.
const (
	maxWatches = 256                    // of a connection; beyond it fs/watch fails
	maxChanged = 1000                   // paths in a notification; if there are more, it names the watched path alone
	debounce   = 200 * time.Millisecond // from the first change to the notification. Compatible with codex.
)

// watches are the watches of a connection.
type watches struct {
	mu      sync.Mutex
	watcher *fsnotify.Watcher // nil: there has been no watch
	byID    map[string]*watch
	folders map[string]int // the number of watches of each folder that is watched
}

// watch is one watch. A file is watched by its folder, so that a watch survives the replacement of the file.
type watch struct {
	path   string // as the client named it
	folder string // resolved
	name   string // of the file; empty: the folder itself is watched
	// changed are the paths that the client does not know of; due is when it will. Guarded by the mutex of watches.
	changed map[string]bool
	due     time.Time
}

// FsWatch implements fs/watch. A folder is watched without its subfolders; a file need not exist.
func (b *Bench) FsWatch(_ context.Context, q protocol.FsWatchParams) (protocol.FsWatchResponse, error) {
	return asCommand(b, func() (protocol.FsWatchResponse, error) { return b.watch(q) })
}

func (b *Bench) watch(q protocol.FsWatchParams) (protocol.FsWatchResponse, error) {
	if q.WatchID == "" {
		return protocol.FsWatchResponse{}, rpc.Errorf(rpc.InvalidRequest, "watchId must not be empty")
	}
	p, err := b.find("path", q.Path)
	if err != nil {
		return protocol.FsWatchResponse{}, err
	}
	defer p.close()
	w := &watch{path: filepath.Clean(q.Path), folder: filepath.Dir(p.path), name: p.name, changed: map[string]bool{}}
	switch info, err := p.dir.Lstat(p.name); {
	case err == nil && info.IsDir():
		w.folder, w.name = p.path, ""
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return protocol.FsWatchResponse{}, named(q.Path, err)
	}
	if err := b.addWatch(q.WatchID, w); err != nil {
		return protocol.FsWatchResponse{}, err
	}
	return protocol.FsWatchResponse{Path: w.path}, nil
}

func (b *Bench) addWatch(id string, w *watch) error {
	s := &b.watches
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.life.Err() != nil:
		return errClosed
	case s.byID[id] != nil:
		return rpc.Errorf(rpc.InvalidRequest, "duplicate watchId %q", id)
	case len(s.byID) >= maxWatches:
		return hint.With(rpc.Errorf(rpc.InvalidRequest, "this connection has %d watches, which is the limit", maxWatches), "end some with fs/unwatch first")
	}
	if s.watcher == nil {
		if err := b.startWatcher(); err != nil {
			return err
		}
	}
	if s.folders[w.folder] == 0 {
		if err := s.watcher.Add(w.folder); err != nil {
			return notWatched(w.path, err)
		}
	}
	s.folders[w.folder]++
	s.byID[id] = w
	return nil
}

// startWatcher starts the system's watcher. The caller holds the mutex of watches.
func (b *Bench) startWatcher() error {
	b.mu.Lock() // the connection must not end meanwhile
	defer b.mu.Unlock()
	if b.life.Err() != nil {
		return errClosed
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return notWatched("files", err)
	}
	b.watches.watcher, b.watches.byID, b.watches.folders = w, map[string]*watch{}, map[string]int{}
	b.work.Go(func() { b.runWatches(w) })
	return nil
}

func notWatched(what string, err error) error {
	out := rpc.Errorf(rpc.Internal, "%s can't be watched: %s", what, sentence(err))
	if runtime.GOOS == "linux" && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return hint.With(out, "end programs that watch many files, or raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl")
	}
	return out
}

// FsUnwatch implements fs/unwatch. That there is no such watch is no error.
func (b *Bench) FsUnwatch(_ context.Context, q protocol.FsUnwatchParams) error {
	s := &b.watches
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byID[q.WatchID]
	if w == nil {
		return nil
	}
	delete(s.byID, q.WatchID)
	if s.folders[w.folder]--; s.folders[w.folder] == 0 {
		delete(s.folders, w.folder)
		_ = s.watcher.Remove(w.folder) // it may have been removed with its folder
	}
	return nil
}

// runWatches notifies the client of changes until the connection ends.
func (b *Bench) runWatches(w *fsnotify.Watcher) {
	defer w.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-b.life.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if e.Op == fsnotify.Chmod { // also what reading a file may cause
				continue
			}
			b.watches.note(e.Name)
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			b.cfg.Logger.Warn("changes of files were lost", "err", err)
			b.watches.noteAll()
		case <-timer.C:
			for _, n := range b.watches.take(time.Now()) {
				b.cfg.Notify("fs/changed", n)
			}
		}
		if at, ok := b.watches.next(); ok {
			timer.Reset(time.Until(at))
		}
	}
}

// note records a change of a resolved path.
func (s *watches) note(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.byID {
		switch {
		case w.name == "" && path == w.folder, w.name != "" && path == filepath.Join(w.folder, w.name):
			w.add(w.path)
		case w.name == "" && filepath.Dir(path) == w.folder:
			w.add(filepath.Join(w.path, filepath.Base(path)))
		}
	}
}

// noteAll records a change of everything, because changes were lost.
func (s *watches) noteAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.byID {
		w.add(w.path)
	}
}

func (w *watch) add(path string) {
	if len(w.changed) == 0 {
		w.due = time.Now().Add(debounce)
	}
	if len(w.changed) >= maxChanged {
		w.changed = map[string]bool{w.path: true}
	}
	if !w.changed[w.path] { // which means: anything
		w.changed[path] = true
	}
}

// take returns the notifications that are due.
func (s *watches) take(now time.Time) (out []protocol.FsChangedNotification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		w := s.byID[id]
		if len(w.changed) == 0 || w.due.After(now) {
			continue
		}
		out = append(out, protocol.FsChangedNotification{WatchID: id, ChangedPaths: slices.Sorted(maps.Keys(w.changed))})
		w.changed = map[string]bool{}
	}
	return out
}

// next returns when the next notification is due.
func (s *watches) next() (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.byID {
		if len(w.changed) > 0 && (!ok || w.due.Before(at)) {
			at, ok = w.due, true
		}
	}
	return at, ok
}
