package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// listen opens the run socket of a thread, so that other programs of the user find it. The caller holds the thread's
// writer lock: a socket that is there belongs to a process that has ended.
func (h *Host) listen(id event.ThreadID) (*net.UnixListener, error) {
	path, err := runsocket.Path(h.folders.base, id)
	if err != nil {
		return nil, err
	}
	if !h.opts.Ephemeral { // its store does not know whose the others are
		h.sweep(filepath.Dir(path))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove a stale run socket: %w", err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for clients of thread %s: %w", id, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// sweep removes the sockets that killed hosts left: those of threads that no process holds. Its own thread's is held.
func (h *Host) sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		h.log.Debug("run folder not read", "err", err)
		return
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".sock")
		id, err := event.ParseThreadID(name)
		if !ok || err != nil {
			continue
		}
		if _, held, err := h.store.Holder(h.life, id); held || err != nil {
			continue
		}
		lock, err := h.store.LockThread(h.life, id)
		if err != nil {
			continue // somebody was faster
		}
		if err := errors.Join(os.Remove(filepath.Join(dir, e.Name())), lock.Release()); err != nil {
			h.log.Debug("stale run socket not removed", "thread", id, "err", err)
		}
	}
}

// serve lets clients reach a thread while it runs.
func (h *Host) serve(ctx context.Context, ln *net.UnixListener, t *thread.Thread) {
	appserver.Serve(ctx, ln, appserver.Thread{
		Thread: t,
		Events: func(ctx context.Context, after uint64) iter.Seq2[event.Event, error] {
			return h.store.Events(ctx, t.ID(), after)
		},
		Library: h, Shell: h.shell, Reviewer: h.reviewer,
	}, h.plugins, h.log.Named("appserver").With("thread", t.ID()))
}
