package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/privatedir"
	"github.com/gantry-agent/gantry/host/internal/proctree"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Names in gantry's home, which are those of codex's app server.
const (
	controlDir  = "app-server-control"
	controlFile = "app-server-control.sock"
	startupLock = "app-server-startup.lock"
)

// startupTime is how long a server waits for another one that is opening a socket.
const startupTime = 10 * time.Second

// ControlSocket returns the path of the socket that unix:// stands for.
func ControlSocket(home string) string { return filepath.Join(home, controlDir, controlFile) }

// maxPath returns the longest path that fits into a socket address, which includes a zero byte at the end.
func maxPath() int {
	if runtime.GOOS == "darwin" {
		return 103
	}
	return 107
}

// socket is a unix socket that this process listens on.
type socket struct {
	*net.UnixListener
	path  string
	file  fs.FileInfo
	close func() error
}

// listenUnix opens a server's socket. The file can be used only by its owner, and so can the folder if it is the default one or is
// created here.
func listenUnix(ctx context.Context, cfg Config) (endpoint, error) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return nil, hint.New("listen on a unix socket: not supported on "+runtime.GOOS+", which does not report the user of a client",
			"use stdio://, or ws://127.0.0.1:PORT with --ws-auth")
	}
	control := filepath.Join(cfg.Home, controlDir)
	if err := privatedir.Make(control); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Address, err)
	}
	path, err := filepath.Abs(cmp.Or(cfg.Address.Path, ControlSocket(cfg.Home)))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Address, err)
	}
	if len(path) > maxPath() {
		return nil, hint.New(fmt.Sprintf("listen on %s: the path is longer than %d bytes", path, maxPath()), "use unix://PATH with a shorter path")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	wait, cancel := context.WithTimeoutCause(ctx, startupTime, hint.New("another process is opening a socket", "try again"))
	defer cancel()
	var s *socket
	// Two servers that find the socket of a third that was killed must not remove each other's.
	err = flock.With(wait, filepath.Join(control, startupLock), true, func() (err error) {
		s, err = bind(wait, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return newWeb(cfg, s, "unix://"+path), nil
}

// bind listens on path in place of a server that has ended. The caller holds the startup lock.
func bind(ctx context.Context, path string) (*socket, error) {
	if err := vacate(ctx, path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // it would remove a file that has taken the place of ours
	s := &socket{UnixListener: ln, path: path}
	s.close = sync.OnceValue(s.remove)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, os.Remove(path), ln.Close())
	}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return s, nil
}

// vacate removes a socket that no process listens on. It returns an error if there is anything else at path.
func vacate(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return hint.New("the file exists and is not a socket", "remove it, or use unix://PATH with another path")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		defer conn.Close()
		by := "another process"
		if peer, err := wire.PeerOf(conn); err == nil && peer.PID != 0 {
			by = fmt.Sprintf("process %d", peer.PID)
		}
		return hint.New("the socket is already in use by "+by, "connect to it, end that process, or use unix://PATH with another path")
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return hint.With(fmt.Errorf("can't determine whether the socket is in use: %w", err), "remove it, or use unix://PATH with another path")
}

// Close removes the socket, and then stops listening: as long as the file is there, other servers see that it is in use.
func (s *socket) Close() error { return s.close() }

func (s *socket) remove() error {
	var err error
	if now, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(now, s.file) {
		err = os.Remove(s.path)
	}
	return errors.Join(err, s.UnixListener.Close())
}

// identify returns the client of a unix socket, and an error if it is another user's.
func identify(conn *net.UnixConn) (Peer, error) {
	peer, err := wire.PeerOf(conn)
	if err == nil {
		err = wire.SameUser(peer)
	}
	if err != nil {
		return Peer{}, err
	}
	launched, err := proctree.Contains(conn, os.Getpid(), peer.PID)
	if errors.Is(err, errors.ErrUnsupported) { // an older kernel
		err = nil
	}
	return Peer{Kind: Unix, PID: peer.PID, Launched: launched}, err
}
