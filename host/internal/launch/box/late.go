package box

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// A mount lies over a file, not over its name. So what is hidden is seen by a process that runs once it is made, or saved by renaming another
// file. The folders in which that can happen are watched, and when it does the boxes of all processes get covers as they would now be made.

// resident is a process in a box, or in a cage.
type resident struct {
	owner  launch.Owner
	name   string
	hide   func([]control.Cover) error
	made   chan struct{}                   // closed when covers is known
	covers func() ([]control.Cover, error) // what is to be hidden from it now; nil: it was not started

	mu      sync.Mutex // held while covers are laid
	waiting bool       // for that; guarded by the residents' mutex
	failed  bool       // said so
}

// residents are all processes that run in boxes.
type residents struct {
	lookout lookout
	moved   func(launch.Owner, []Moved, error)

	mu      sync.Mutex
	list    []*resident
	unseen  error // said: the reason why nothing is noticed
	noticed int   // how often something was
	closed  bool
	work    sync.WaitGroup
}

// enter makes sure that what is to be hidden from a process is noticed from now on. made is called with what is to be
// hidden at any time, leave when it has ended.
func (h *residents) enter(r *resident, paths []string) (made func(covers func() ([]control.Cover, error)), leave func()) {
	err := h.lookout.add(paths)
	h.mu.Lock()
	h.list = append(h.list, r)
	say := err != nil && h.unseen == nil
	if say {
		h.unseen = err
	}
	h.mu.Unlock()
	if say && h.moved != nil {
		h.moved(r.owner, nil, fmt.Errorf("keys that are made while a command runs can't be hidden from it: %w", err))
	}
	return func(covers func() ([]control.Cover, error)) {
			r.covers = covers
			close(r.made)
		}, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.list = slices.DeleteFunc(h.list, func(x *resident) bool { return x == r })
		}
}

// expect begins to watch before the first process comes, which says what went wrong.
func (h *residents) expect(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Go(func() { _ = h.lookout.add(paths) }) // waited for by close
	}
}

// stirred hears that something has appeared that may have to be hidden.
func (h *residents) stirred() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noticed++
	for _, r := range h.list {
		h.stirLocked(r)
	}
}

// watching makes sure that something is noticed, and returns how often something was until now.
func (h *residents) watching(paths []string) (noticed int) {
	_ = h.lookout.add(paths) // the first command says what went wrong
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.noticed
}

// since has covers laid for a process if something was noticed since then.
func (h *residents) since(r *resident, noticed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noticed != noticed {
		h.stirLocked(r)
	}
}

func (h *residents) stirLocked(r *resident) {
	if !r.waiting && !h.closed {
		r.waiting = true
		h.work.Go(func() { h.cover(r) }) // waited for by close; ends with the process at the latest
	}
}

// cover lays covers over what has appeared.
func (h *residents) cover(r *resident) {
	<-r.made
	r.mu.Lock()
	defer r.mu.Unlock()
	h.mu.Lock()
	r.waiting = false // what appears from here on is another time's
	h.mu.Unlock()
	if r.covers == nil {
		return
	}
	covers, err := r.covers()
	if len(covers) > 0 {
		err = errors.Join(err, r.hide(covers))
	}
	if err != nil && !r.failed && h.moved != nil {
		r.failed = true
		h.moved(r.owner, nil, fmt.Errorf("a key that has appeared can't be hidden from %s, which runs: %w; end it if it must not read that", r.name, err))
	}
}

func (h *residents) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.lookout.close()
	h.work.Wait()
}

// watched are the paths whose appearance matters to a grant: of keys, and of what is denied by its path.
func (b *Box) watched(g launch.Grant) []string {
	var out []string
	if g.Mode != launch.FullAccess {
		out = b.keys()
	}
	return append(out, deniedPaths(g)...)
}

// deniedPaths are those patterns of a grant that name one path.
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

// lateCovers are the covers of what a grant hides now. What was missing in a root when the process began is judged when it appears, and not
// covered: the process may be making it.
func (b *Box) lateCovers(g launch.Grant, d *design) ([]control.Cover, error) {
	v := d.view
	var paths []string
	add := func(p string) {
		held := slices.ContainsFunc(v.roots, func(r string) bool { return r == p || fspath.Below(r, p) }) // the process works there
		if v.shows(p) && !v.lost(p) && !held && !slices.Contains(v.shown, p) && !slices.Contains(d.missing, p) {
			paths = append(paths, p)
		}
	}
	if !v.full {
		v.keys = b.located()
		for _, k := range b.hidden(v) {
			if !v.opens(k.path) {
				add(k.path)
			}
		}
		for _, k := range v.keys {
			if k.there && fspath.BelowAny(k.path, v.roots) && !b.among(k.path, v) {
				add(k.path)
			}
		}
	}
	for _, p := range deniedPaths(g) {
		if !slices.Contains(d.missing, fspath.ResolveParent(p)) {
			add(fspath.Resolve(p))
		}
	}
	var mounted []denial
	err := errMoved
	for n := 0; n < looks && errors.Is(err, errMoved); n++ {
		mounted, err = b.mountedAgain(v)
	}
	for _, x := range mounted {
		add(x.path)
	}
	list, failed := coversOf(paths)
	return list, errors.Join(err, failed)
}

// coversOf are the covers of what is there of these paths.
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

// Late has what appears later hidden from a plugin's process as well; it is for [proc.PluginSandbox]. It is asked for before the cage is made.
func (b *Box) Late(label string, cage func() (PluginConfig, error)) func(hide func([]control.Cover) error) (leave func()) {
	if b.seatbelt {
		return nil
	}
	covers := func() ([]control.Cover, error) {
		cfg, err := cage()
		if err != nil {
			return nil, err
		}
		return coversOf(PluginSandbox(cfg).Hide)
	}
	before := b.residents.watching(b.keys())
	return func(hide func([]control.Cover) error) func() {
		r := &resident{owner: launch.Owner{Plugin: label}, name: "the plugin " + label, hide: hide, made: make(chan struct{})}
		made, leave := b.residents.enter(r, b.keys())
		made(covers)
		b.residents.since(r, before)
		return leave
	}
}
