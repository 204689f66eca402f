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

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
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
	}, h, h.log.Named("appserver").With("thread", t.ID()))
}

// PluginStatus implements [appserver.Plugins].
func (h *Host) PluginStatus() []appserver.PluginStatus {
	var out []appserver.PluginStatus
	for _, slot := range h.plugins.Slots() {
		s := slot.Status()
		p := appserver.PluginStatus{
			Label: s.Plugin, Kind: s.Kind.String(), Source: s.Source, Mode: s.Mode.String(), Version: s.Version,
			Generation: s.Generation, PID: s.PID, Started: s.Started, Calls: s.Calls, Crashes: s.Crashes,
			PSSBytes: s.Usage.PSSBytes, Problem: s.Message,
		}
		out = append(out, p)
	}
	return out
}

// ReloadPlugin implements [appserver.Plugins]: the new process starts beside the old one, which stays if the new one
// fails its checks.
func (h *Host) ReloadPlugin(ctx context.Context, label, path string) error {
	slot := h.plugins.Slot(label)
	if slot == nil {
		return fmt.Errorf("no plugin %q is configured in this host", label)
	}
	spec := slot.Spec()
	if path != "" {
		spec.Path = path
	}
	if b := h.block(label); b != nil && h.opts.Reverified != nil {
		var err error
		if spec.SHA256, spec.ManifestDigest, err = h.opts.Reverified(ctx, b); err != nil {
			return err
		}
	}
	err := slot.Replace(ctx, spec)
	if n := next(err); n != "" {
		return hint.With(err, n) // only the text reaches the client
	}
	return err
}

func (h *Host) block(label string) *config.PluginBlock {
	if b, ok := h.opts.Config.Plugin(label); ok {
		return b
	}
	b, _ := h.opts.Config.Provider(label)
	return b
}
