package box

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/quarantine"
	"github.com/gantry-agent/gantry/host/internal/launch/box/secrets"
)

// view returns what a grant lets processes see. missing is what is denied and does not exist, but could be created.
func (b *Sandbox) view(g launch.Grant, roots, opened []string) (v view, missing []string, err error) {
	v = view{full: g.Mode == launch.FullAccess, roots: roots, tmp: g.Tmp}
	if !v.full {
		v.keys = b.locator.Locate()
	}
	if len(roots) == 0 {
		v.tmp = "" // the machine's, to be read
	}
	around := roots
	if g.Mode == launch.FullAccess {
		around, v.tmp = nil, "" // commands may change everything, and may read what they change
	} else if g.Mode == launch.Narrow {
		around, v.narrow, v.read = nil, true, []string{} // the roots are not the user's
	} else if len(g.ReadableRoots) > 0 {
		v.read = []string{}
		for _, r := range g.ReadableRoots {
			if r = fspath.Resolve(r); fspath.Exists(r) && !slices.Contains(v.read, r) {
				v.read = append(v.read, r)
			}
		}
	}
	for _, p := range g.Shown {
		if p = fspath.Resolve(p); g.Mode != launch.FullAccess && fspath.Exists(p) && secrets.IsKey(p, v.keys) {
			v.shown = append(v.shown, p)
		}
	}
	for _, p := range g.Near {
		if p = fspath.Resolve(p); v.tmp != "" && fspath.Below(p, "/tmp") && fspath.Exists(p) && !secrets.IsKey(p, v.keys) &&
			fspath.Deepest(slices.Concat(roots, []string{b.home}), p) == "" {
			v.near = append(v.near, p)
		}
	}
	var found []deny.Entry
	if v.denied, missing, err = b.patterns.Find(g.DenyRead, around); err != nil {
		return view{}, nil, err
	}
	if !v.full {
		others, err := deny.HardLinks(v.denied, slices.Concat(roots, v.read))
		if err != nil {
			return view{}, nil, err
		}
		v.denied = append(v.denied, others...)
		keys, gaps, err := b.keysIn(v)
		if err != nil {
			return view{}, nil, err
		}
		v.denied, missing = append(v.denied, keys...), append(missing, gaps...)
		kept, gaps, err := b.patterns.Find(g.DenyWrite, roots)
		if err != nil {
			return view{}, nil, err
		}
		found, missing = kept, append(missing, gaps...)
	}
	mounted, err := b.mountedAgain(v)
	if err != nil {
		return view{}, nil, err
	}
	v.denied = append(v.denied, mounted...)
	for _, d := range found {
		switch {
		case !fspath.BelowAny(d.Path, roots):
		case !fspath.ContainsOpened(d.Path, opened):
			v.hold(d)
		case d.Folder:
			v.partial = append(v.partial, d.Path)
		}
	}
	for _, d := range slices.Concat(v.denied, found) {
		for _, p := range d.Pinned {
			if !slices.Contains(v.pinned, p) {
				v.pinned = append(v.pinned, p)
			}
		}
	}
	if !b.seatbelt && slices.ContainsFunc(v.denied, func(d deny.Entry) bool { return !d.Folder }) {
		v.blank, err = b.blank()
	}
	return v, missing, err
}

// keysIn returns the keys in the writable roots of a view, and the paths of those that could be created. A process whose root is
// such a folder of keys, or below one, sees what is in it.
func (b *Sandbox) keysIn(v view) (list []deny.Entry, missing []string, err error) {
	out := map[string]deny.Entry{}
	for _, k := range v.keys {
		switch {
		case !k.Exists && fspath.BelowAny(k.At, v.roots) && !fspath.Exists(k.At):
			missing = append(missing, k.At)
		case k.Exists && fspath.BelowAny(k.Path, v.roots) && !slices.Contains(v.roots, k.Path) && !slices.Contains(v.shown, k.Path):
			if err := deny.Add(k.Path, true, v.roots, out); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, d := range out {
		if !b.worksAmongKeys(d.Path, v) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b deny.Entry) int { return strings.Compare(a.Path, b.Path) })
	return list, missing, nil
}

// worksAmongKeys reports whether a path is in a root that is a folder of keys itself.
func (b *Sandbox) worksAmongKeys(path string, v view) bool {
	return slices.ContainsFunc(v.roots, func(r string) bool {
		return r != b.userHome && fspath.Below(r, b.userHome) && fspath.Below(path, r) && secrets.IsKey(r, v.keys)
	})
}

// mountedAgain returns the other mounts of what a view denies or hides.
func (b *Sandbox) mountedAgain(v view) ([]deny.Entry, error) {
	var paths []string
	for _, d := range v.denied {
		paths = append(paths, d.Path)
	}
	if !v.full {
		paths = append(paths, b.home)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == "" || !fspath.Exists(p) })
	for _, k := range v.keys {
		if k.Exists && !slices.Contains(v.shown, k.Path) && !slices.Contains(v.roots, k.Path) && !slices.Contains(paths, k.Path) {
			paths = append(paths, k.Path)
		}
	}
	out := map[string]deny.Entry{}
	for _, p := range fspath.OtherMounts(paths) {
		gone := !v.full && (fspath.BelowAny(p, []string{"/run", "/proc", "/dev"}) || v.replaces(p)) // the sandbox has another one there
		if gone || slices.Contains(v.roots, p) || fspath.BelowAny(p, paths) {
			continue
		}
		if err := deny.Add(p, true, v.roots, out); err != nil {
			return nil, err
		}
	}
	list := slices.Collect(maps.Values(out))
	slices.SortFunc(list, func(a, b deny.Entry) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// blank returns an empty file that can't be opened, to be mounted over denied files.
func (b *Sandbox) blank() (string, error) {
	path := filepath.Join(b.home, "denied")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Lstat(path)
		if err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
			err = errors.New("it is not the empty file that gantry created; remove it")
		}
		if err == nil {
			err = os.Chmod(path, 0)
		}
		if err != nil {
			return "", fmt.Errorf("files can't be denied by %s: %w", path, err)
		}
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("files can't be denied: %w", err)
	}
	return path, f.Close()
}

// deniedIn returns what a view denies or keeps read-only.
func deniedIn(v *view) quarantine.Denied {
	out := quarantine.Denied{}
	for _, d := range slices.Concat(v.denied, v.kept) {
		out[fspath.Persistent(d.Path, d.ID)] = d.Path
	}
	return out
}
