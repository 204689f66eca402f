package threadsocket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
)

// processSuffix ends the name of a process's socket, which begins with its PID. The links that lead to it have names of threads.
const processSuffix = ".process"

// listener is the socket of this process.
type listener struct {
	*net.UnixListener
	path string
}

// listen opens the socket of this process in the run folder of a home. The file appears when clients can connect, and only its owner can.
func listen(home string) (*listener, error) {
	some, err := runsocket.Path(home, event.NewThreadID())
	if err != nil {
		return nil, err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := fmt.Sprintf("%d-%x", os.Getpid(), random)
	path, hidden := filepath.Join(filepath.Dir(some), name+processSuffix), filepath.Join(filepath.Dir(some), name+".new")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for clients of threads: %w", err)
	}
	ln.SetUnlinkOnClose(false)
	// From here on it listens: see Sweep.
	if err := errors.Join(os.Chmod(hidden, 0o600), os.Rename(hidden, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for clients of threads: %w", err), ln.Close(), os.Remove(hidden))
	}
	return &listener{ln, path}, nil
}

// close removes the socket.
func (l *listener) close() error { return errors.Join(os.Remove(l.path), l.UnixListener.Close()) }

// link leads to the socket of the process that runs a thread.
type link string

// link makes the path at which other processes look for a thread lead to this one. The caller holds the thread's lock, so an existing
// file belongs to a process that has ended.
func (l *listener) link(id event.ThreadID) (link, error) {
	path := filepath.Join(filepath.Dir(l.path), string(id)+".sock")
	err := os.Symlink(filepath.Base(l.path), path)
	if errors.Is(err, fs.ErrExist) {
		err = errors.Join(os.Remove(path), os.Symlink(filepath.Base(l.path), path))
	}
	if err != nil {
		return "", fmt.Errorf("make thread %s reachable for clients: %w", id, err)
	}
	return link(path), nil
}

func (l link) remove() error { return os.Remove(string(l)) }

// Sweep removes the sockets of processes that were killed, and the links of threads that no process has locked.
func Sweep(ctx context.Context, home string, threads *store.Store, log hclog.Logger) {
	path, err := runsocket.Path(home, event.NewThreadID())
	if err != nil {
		return // listening fails for the same reason
	}
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Debug("run folder not read", "err", err)
		return
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), processSuffix) {
			sweepProcess(ctx, filepath.Join(dir, e.Name()), log)
			continue
		}
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

// sweepProcess removes a socket on which no process listens. A new one listens before its file has this name.
func sweepProcess(ctx context.Context, path string, log hclog.Logger) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // nothing was sent
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Debug("stale run socket not removed", "path", path, "err", err)
		}
	}
}
