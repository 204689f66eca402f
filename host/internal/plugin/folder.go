package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// The path of a unix socket may have 107 bytes. A plugin's folder takes at most 68 of them, which leaves 38 for a name of
// the plugin's choice: base, host folder ("/h" and eleven characters), slot folder ("/plugin-dir" and up to ten digits).
const (
	maxSlotDir   = 68
	maxBaseDir   = maxSlotDir - len("/hXXXXXXXXXXX") - len("/plugin-dir4294967295")
	hostPrefix   = "h"
	lockName     = "lock"
	baseLockName = ".lock"
)

// hostDir is the folder of one supervisor; every plugin process gets a folder of its own in it.
type hostDir struct {
	path string
	lock *os.File // held as long as the supervisor lives; the kernel lets go of it when the host dies
}

// openHostDir makes a folder under the first base that is short enough, and removes those of dead hosts beside it.
func openHostDir(bases []string, logger hclog.Logger) (*hostDir, error) {
	var problems []error
	for _, base := range bases {
		switch {
		case base == "":
			continue
		case !filepath.IsAbs(base):
			problems = append(problems, fmt.Errorf("%s is not absolute", base))
			continue
		case len(base) > maxBaseDir:
			problems = append(problems, fmt.Errorf("%s is too long for sockets (%d bytes, at most %d)", base, len(base), maxBaseDir))
			continue
		}
		d, err := openIn(base, logger)
		if err == nil {
			return d, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("no folder for plugin sockets: %w", errors.Join(problems...))
}

// socketBases lists where sockets may live, best first. A folder under the temporary one is the last resort: its name is
// short everywhere, and its owner and mode are checked.
func socketBases(runtimeDir string, lookup func(string) (string, bool)) []string {
	bases := []string{runtimeDir}
	if x, ok := lookup("XDG_RUNTIME_DIR"); ok && x != "" {
		bases = append(bases, filepath.Join(x, "gantry"))
	}
	return append(bases, filepath.Join(os.TempDir(), "gantry-"+strconv.Itoa(os.Getuid())),
		"/tmp/gantry-"+strconv.Itoa(os.Getuid()))
}

func openIn(base string, logger hclog.Logger) (*hostDir, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	if err := ownFolder(base); err != nil {
		return nil, err
	}
	// Whoever sweeps or makes a host folder holds this lock: a folder without its lock taken would look stale.
	all, err := os.OpenFile(filepath.Join(base, baseLockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := lockFile(all, true); err != nil {
		return nil, fmt.Errorf("lock %s: %w", all.Name(), err)
	}
	sweep(base, logger)
	path, err := os.MkdirTemp(base, hostPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = lockFile(lock, false)
	}
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		_ = os.RemoveAll(path)
		return nil, err
	}
	if len(path)+len("/plugin-dir4294967295") > maxSlotDir {
		_ = lock.Close()
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("%s is too long for sockets", path)
	}
	return &hostDir{path, lock}, nil
}

// sweep removes the folders of hosts that are gone, and what is left of their plugins.
func sweep(base string, logger hclog.Logger) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), hostPrefix) {
			continue
		}
		path := filepath.Join(base, e.Name())
		f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err == nil {
			held := lockFile(f, false) != nil
			_ = f.Close()
			if held {
				continue
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			continue
		}
		killed := proc.KillMarked(wire.SocketDirEnv + "=" + path + "/")
		if err := removeAll(path); err != nil {
			logger.Warn("a dead host's folder can't be removed", "path", path, "err", err)
			continue
		}
		logger.Info("removed what a dead host left", "path", path, "processes", killed)
	}
}

// close removes the folder.
func (d *hostDir) close() error {
	return errors.Join(removeAll(d.path), d.lock.Close())
}
