package threadsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
)

// Listen opens the run socket of a thread below base, so that other programs of the user find it. The caller holds the thread's writer
// lock, so an existing socket belongs to a process that has ended.
func Listen(base string, id event.ThreadID) (*net.UnixListener, error) {
	path, err := runsocket.Path(base, id)
	if err != nil {
		return nil, err
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

// Sweep removes the sockets below base of hosts that were killed: those of threads that no process has locked.
func Sweep(ctx context.Context, base string, threads *store.Store, log hclog.Logger) {
	path, err := runsocket.Path(base, event.NewThreadID())
	if err != nil {
		return // Listen fails for the same reason
	}
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Debug("run folder not read", "err", err)
		return
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".sock")
		id, err := event.ParseThreadID(name)
		if !ok || err != nil {
			continue
		}
		if _, held, err := threads.Holder(ctx, id); held || err != nil {
			continue
		}
		lock, err := threads.LockThread(ctx, id)
		if err != nil {
			continue // another process was faster
		}
		if err := errors.Join(os.Remove(filepath.Join(dir, e.Name())), lock.Release()); err != nil {
			log.Debug("stale run socket not removed", "thread", id, "err", err)
		}
	}
}
