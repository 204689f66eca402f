package box

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// watched returns the paths whose appearance matters to a grant: those of keys, and those that are denied.
func (b *Sandbox) watched(g launch.Grant) []string {
	var out []string
	if g.Mode != launch.FullAccess {
		out = b.locator.Paths()
	}
	return append(out, deniedPaths(g)...)
}

// deniedPaths returns the patterns of a grant that match one path only.
func deniedPaths(g launch.Grant) (out []string) {
	for _, text := range g.DenyRead {
		if p, err := glob.Parse(text); err == nil {
			if path, ok := p.Path(); ok {
				out = append(out, path)
			}
		}
	}
	return out
}

// lateCovers returns covers for what a grant hides now. What was missing in a root when the process started is not covered but
// checked later: the process may be creating it.
func (b *Sandbox) lateCovers(g launch.Grant, d *plan) ([]control.Cover, error) {
	v := d.view
	var paths []string
	add := func(p string) {
		held := slices.ContainsFunc(v.roots, func(r string) bool { return r == p || fspath.Below(r, p) }) // the process works there
		if v.visible(p) && !v.hiddenByDenial(p) && !held && !slices.Contains(v.shown, p) && !slices.Contains(d.missing, p) {
			paths = append(paths, p)
		}
	}
	if !v.full {
		v.keys = b.locator.Locate()
		for _, k := range b.hidden(v) {
			if !v.opensBelow(k.Path) {
				add(k.Path)
			}
		}
		for _, k := range v.keys {
			if k.Exists && fspath.BelowAny(k.Path, v.roots) && !b.worksAmongKeys(k.Path, v) {
				add(k.Path)
			}
		}
	}
	for _, p := range deniedPaths(g) {
		if !slices.Contains(d.missing, fspath.ResolveParent(p)) {
			add(fspath.Resolve(p))
		}
	}
	var mounted []deny.Entry
	err := deny.ErrMoved
	for n := 0; n < deny.Attempts && errors.Is(err, deny.ErrMoved); n++ {
		mounted, err = b.mountedAgain(v)
	}
	for _, x := range mounted {
		add(x.Path)
	}
	list, failed := coversOf(paths)
	return list, errors.Join(err, failed)
}

// coversOf returns covers for those of paths that exist.
func coversOf(paths []string) (list []control.Cover, err error) {
	for _, p := range paths {
		in, id, mode, failed := fspath.LstatIn(p)
		switch {
		case fspath.IsNotExist(failed) || errors.Is(failed, fs.ErrPermission):
		case failed != nil:
			err = errors.Join(err, failed)
		default:
			list = append(list, control.Cover{Path: p, Dev: in.Dev, Ino: in.Ino, WasDev: id.Dev, WasInode: id.Ino, Folder: mode.IsDir()})
		}
	}
	return list, err
}

// Late hides files from a plugin's process that appear after it has started; it is for [proc.Sandbox]. It is called before the
// plugin's sandbox is made.
func (b *Sandbox) Late(label string, cage func() (pluginbox.Config, error)) func(hide func([]control.Cover) error) (leave func()) {
	if b.seatbelt {
		return nil
	}
	covers := func() ([]control.Cover, error) {
		cfg, err := cage()
		if err != nil {
			return nil, err
		}
		return coversOf(pluginbox.New(cfg).Hide)
	}
	before := b.late.Watch(b.locator.Paths())
	return func(hide func([]control.Cover) error) func() {
		p := b.late.Enter(launch.Owner{Plugin: label}, "the plugin "+label, hide, b.locator.Paths())
		p.Ready(covers)
		b.late.Since(p, before)
		return func() { b.late.Leave(p) }
	}
}
