// Package socketdir creates the folder that contains the sockets of one host's plugins, and removes the folders of hosts
// that have died, along with their plugin processes.
//
// It owns: where the folder is, its length limit, its permissions and its lock. It must not know: what plugins do.
//
// Start with [Open].
package socketdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// The path of a unix socket is at most 107 bytes. The folder of a process takes at most 68 of them, which leaves 38 for the
// socket's name, which the plugin chooses.
const (
	// MaxProcessDir is the length limit of a process's folder: base, host folder ("/h" and up to eleven characters), and
	// the process's own folder, which go-plugin names "plugin-dir" and up to ten digits.
	MaxProcessDir = 68

	processDir   = "/plugin-dir4294967295" // the longest
	maxBase      = MaxProcessDir - len("/hXXXXXXXXXXX") - len(processDir)
	hostPrefix   = "h"
	lockName     = "lock"
	baseLockName = ".lock"
)

// Dir is the folder of one host. Each plugin process gets a folder of its own in it.
type Dir struct {
	Path string
	lock *os.File // held while the host lives; the kernel releases it if the host dies
}

// Open creates a folder under the first of bases that is usable and short enough for sockets. It also removes the folders
// of dead hosts under that base.
func Open(bases []string, logger hclog.Logger) (*Dir, error) {
	var problems []error
	for _, base := range bases {
		switch {
		case base == "":
			continue
		case !filepath.IsAbs(base):
			problems = append(problems, fmt.Errorf("%s is not absolute", base))
			continue
		case len(base) > maxBase:
			problems = append(problems, fmt.Errorf("%s is too long for sockets (%d bytes, at most %d)", base, len(base), maxBase))
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

// Bases lists the folders that Open should try, in order of preference: runtimeDir (may be empty), the user's
// $XDG_RUNTIME_DIR, which lookup finds, and folders under the temporary folder. The last one has a short name on every
// system.
func Bases(runtimeDir string, lookup func(string) (string, bool)) []string {
	bases := []string{runtimeDir}
	if x, ok := lookup("XDG_RUNTIME_DIR"); ok && x != "" {
		bases = append(bases, filepath.Join(x, "gantry"))
	}
	own := "gantry-" + strconv.Itoa(os.Getuid())
	return append(bases, filepath.Join(os.TempDir(), own), "/tmp/"+own)
}

func openIn(base string, logger hclog.Logger) (*Dir, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	if err := checkOwner(base); err != nil {
		return nil, err
	}
	// The lock of the base is held while host folders are created and swept: one that is not locked yet would look stale.
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
	if err == nil && len(path)+len(processDir) > MaxProcessDir {
		err = fmt.Errorf("%s is too long for sockets", path)
	}
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		_ = os.RemoveAll(path)
		return nil, err
	}
	return &Dir{path, lock}, nil
}

// sweep removes the folders of dead hosts, and kills the plugin processes that they left running.
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
			logger.Warn("can't remove the folder of a dead host", "path", path, "err", err)
			continue
		}
		logger.Info("removed what a dead host left behind", "path", path, "processes", killed)
	}
}

// Close removes the folder and releases its lock.
func (d *Dir) Close() error {
	return errors.Join(removeAll(d.Path), d.lock.Close())
}

// removeAll is os.RemoveAll that also removes folders whose permissions a plugin has taken away from its own user.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, rerr := os.OpenRoot(path)
	if rerr != nil {
		return err
	}
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // called before the folder is read
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
	_ = root.Close()
	return os.RemoveAll(path)
}
