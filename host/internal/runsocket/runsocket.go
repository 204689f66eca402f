// Package runsocket determines the path of a thread's run socket, on which the process that runs the thread listens.
//
// It owns: that path, the limit on its length, and its folder. It must not know: what is said over the socket.
//
// Start with [Path].
package runsocket

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/privatedir"
)

// maxPath returns the longest path that fits into a socket address, which includes a zero byte at the end.
func maxPath() int {
	if runtime.GOOS == "darwin" {
		return 103
	}
	return 107
}

// shortTemp returns a short folder that, unlike $TMPDIR, is the same for every process of the user. It is empty on systems
// without such a folder; a home that is too long is refused there.
func shortTemp() string {
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		return "/tmp"
	}
	return ""
}

// Path returns the path of the socket for a thread, and creates its folder, which only the user can enter. The path is
// <home>/run/<id>.sock. If that is too long for a socket, the path is in a folder of /tmp whose name depends only on home,
// so that all processes of the user find the same one.
//
// The holder of the thread's lock may remove an existing file at that path: the process that created it has ended.
func Path(home string, thread event.ThreadID) (string, error) {
	if err := thread.Check(); err != nil {
		return "", fmt.Errorf("run socket: %w", err)
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("run socket: %w", err)
	}
	dir := filepath.Join(home, "run")
	path := filepath.Join(dir, string(thread)+".sock")
	if len(path) <= maxPath() {
		if err := privatedir.Make(dir); err != nil {
			return "", fmt.Errorf("run socket: %w", err)
		}
		return path, nil
	}
	digest := sha256.Sum256([]byte(home))
	dir = filepath.Join(shortTemp(), fmt.Sprintf("gantry-%d-%s", os.Getuid(), hex.EncodeToString(digest[:6])))
	path = filepath.Join(dir, string(thread)+".sock")
	if len(path) > maxPath() {
		return "", hint.With(fmt.Errorf("run socket: %s is longer than %d bytes", path, maxPath()), "set GANTRY_HOME to a shorter path")
	}
	if err := privatedir.MakeShared(dir); err != nil {
		return "", hint.With(fmt.Errorf("run socket: %w", err),
			fmt.Sprintf("set GANTRY_HOME to a path of at most %d bytes", maxPath()-len("/run/.sock")-len(thread)))
	}
	return path, nil
}
