// Package quarantine moves aside what sandboxed commands create and other programs would execute.
//
// A command's creations are checked when it ends, before anything runs outside of the sandbox while it is running, and as soon as they
// appear once its call has ended. Whatever was not there before the oldest command that is running in the folder is renamed, or disabled
// if it can't be renamed.
//
// It owns: which commands work in which folder, what was there before, when to check, the records for the case that gantry is killed. It
// must not know: what a sandbox is made of, how a process is started.
//
// Start with [New] and [Guard.Enter].
package quarantine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/evict"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/gitconfig"
)

// Moved is what a command has created and must not leave, under the name that it was moved aside to. Without To it stays where it
// is: commands may create it, and a person should look at it.
type Moved struct {
	From, To string // absolute
	Why      string
	Changed  bool // it stays, with fewer rights
}

// Stays reports whether the file is unchanged.
func (m Moved) Stays() bool { return m.To == "" && !m.Changed }

// quarantine moves aside what was not there before and was not opened. Paths are resolved within their root, so that no symbolic
// link leads out of it. stuck are files that could neither be moved nor disabled. again says that something was moved aside in
// place of a file, so the caller has to search again.
func quarantine(was baseline, opened []string, after *autorun.Found) (moved []Moved, stuck []stuckFile, again bool, err error) {
	seen := map[string]bool{} // a path may be found in several ways
	was.newMarks = map[string][]string{}
	for _, p := range after.Files {
		if p.Kind == autorun.KindRepository || seen[p.AbsPath()] || was.known[p.ID] || fspath.ContainsOpened(p.AbsPath(), opened) || fspath.BelowAny(p.AbsPath(), opened) {
			continue
		}
		x := was.culprit(p, after.Roots, seen)
		if x == nil || x.Kind == autorun.KindCause && harmless(p) {
			continue
		}
		again = again || x.Kind == autorun.KindCause
		seen[x.AbsPath()] = true
		m, err := moveAside(*x)
		if err != nil && !fspath.IsNotExist(err) {
			stuck = append(stuck, stuckFile{*x, err})
		}
		if m != nil {
			moved = append(moved, *m)
		}
	}
	switch {
	case len(stuck) > 0:
		err = stuck[0].refuse()
	case after.Err != nil:
		err = after.Err
	}
	return moved, stuck, again, err
}

// moveAside renames a file. Git settings that name no program stay; of others the harmless lines are kept. What can't be renamed is
// disabled in place.
func moveAside(p autorun.File) (*Moved, error) {
	in, err := evict.Open(p.Root, p.Path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if p.Kind == autorun.KindSetID {
		return &Moved{From: p.AbsPath(), Why: p.Kind.Why(), Changed: true}, in.DropSetID()
	}
	var harmless []byte
	if p.Kind == autorun.KindGitSettings {
		info, err := in.Folder.Lstat(in.Name)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			all, err := readAll(in.Folder, in.Name)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
			if harmless = gitconfig.HarmlessLines(all, func(tree string) bool { return holds(p, tree) }); err == nil && len(harmless) == len(all) {
				return nil, nil
			}
		}
	}
	to, err := in.Rename()
	if err != nil {
		if p.Older || in.Disable() != nil {
			return nil, err
		}
		return &Moved{From: p.AbsPath(), Why: p.Kind.Why(), Changed: true}, nil
	}
	m := &Moved{From: p.AbsPath(), To: filepath.Join(filepath.Dir(p.AbsPath()), to), Why: p.Kind.Why()}
	if harmless == nil {
		return m, nil
	}
	f, err := in.Folder.OpenFile(in.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return m, nil // only settings that a command has made are lost
	}
	_, _ = f.Write(harmless)
	_ = f.Close()
	return m, nil
}

// harmless reports whether p is a file of git settings that name no program.
func harmless(p autorun.File) bool {
	if p.Kind != autorun.KindGitSettings {
		return false
	}
	in, err := evict.Open(p.Root, p.Path)
	if err != nil {
		return fspath.IsNotExist(err)
	}
	defer in.Close()
	info, err := in.Folder.Lstat(in.Name)
	if err != nil || !info.Mode().IsRegular() {
		return fspath.IsNotExist(err)
	}
	all, err := readAll(in.Folder, in.Name)
	return err == nil && len(gitconfig.HarmlessLines(all, func(tree string) bool { return holds(p, tree) })) == len(all)
}

// holds reports whether the working tree that settings name is in the same root: git would write what a command has committed to
// any other. Git resolves the path relative to the folder of the settings.
func holds(p autorun.File, tree string) bool {
	if filepath.IsAbs(tree) {
		return false
	}
	to, err := filepath.EvalSymlinks(filepath.Dir(p.AbsPath()) + "/" + tree)
	return err == nil && (to == p.Root || fspath.Below(to, p.Root))
}

// maxSettings bounds what is read of a repository's settings. A longer file is moved aside as a whole.
const maxSettings = 1 << 20

func readAll(root *os.Root, path string) ([]byte, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe without a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if len(b) > maxSettings {
		b = append(b[:0:0], '\x00') // so that no line is kept
	}
	return b, err
}
