//go:build linux || darwin

package tree

import (
	"cmp"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// content is what was read of a folder.
type content struct {
	id     Identity
	folder []listed // subfolders that are to be read
	marks  uint8
	extra
}

// listed is a subfolder as its parent lists it.
type listed struct {
	name  string
	entry uint64
}

// settled is the age that a folder's last change must have for its content to be trusted the next time: the kernel's clock for
// files is so coarse that two changes may have the same time.
const settled = 50 * time.Millisecond

// errMoved says that a folder is no longer at its path.
var errMoved = errors.New("the folder was moved")

// reader reads folders. Each worker has its own.
type reader struct {
	t   *Tree
	buf []byte
	st  unix.Stat_t
}

func (t *Tree) reader() *reader { return &reader{t: t, buf: make([]byte, 32<<10)} }

// classify converts an error of opening a folder: errMoved if the folder is not there, fs.ErrPermission if it can't be opened.
func classify(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ESTALE):
		return errMoved
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fs.ErrPermission
	}
	return err
}

func identityOf(st *unix.Stat_t) Identity {
	return Identity{Dev: uint64(st.Dev), Ino: st.Ino, Changed: changed(st)}
}

// readFD reads an open folder.
func (r *reader) readFD(fd int) (*content, error) {
	now := time.Now()
	if err := retry(func() error { return unix.Fstat(fd, &r.st) }); err != nil {
		return nil, err
	}
	c := &content{id: identityOf(&r.st)}
	c.closed = locked(&r.st) // its entries can be listed but not looked at
	if now.Sub(time.Unix(0, c.id.Changed)) < settled {
		c.id.Changed = 0 // read it again next time
	}
	err := list(fd, r.buf, func(name string, entry uint64, mode uint32) {
		r.entry(fd, c, name, entry, mode)
	})
	return c, err
}

// entry records one name. Names that are gone by now are left out: removing them has changed the folder again.
func (r *reader) entry(fd int, c *content, name string, entry uint64, mode uint32) {
	if mode == unix.S_IFREG || mode == 0 {
		if fstatat(fd, name, &r.st) != nil {
			return
		}
		if mode = uint32(r.st.Mode) & unix.S_IFMT; mode == unix.S_IFREG {
			c.file(name, &r.st, c.id.Dev)
		}
	}
	if int(name[0]) >= 0x80 || r.t.initials[name[0]] {
		if text, special := r.ruleName(fd, name); special {
			r.special(c, text)
			if slices.Contains(r.t.g.rules.Names, text) {
				if !slices.Contains(c.named, text) {
					c.named = append(c.named, text)
				}
				if !slices.Contains(r.t.g.rules.Enter, text) {
					return
				}
			}
		}
	}
	if mode == unix.S_IFDIR {
		c.folder = append(c.folder, listed{name, entry})
	}
}

func (r *reader) special(c *content, name string) {
	if i := slices.Index(r.t.g.rules.Marks, strings.ToLower(name)); i >= 0 {
		c.marks |= 1 << i
	}
}

// file records what matters of a file.
func (e *extra) file(name string, st *unix.Stat_t, dev uint64) {
	if st.Nlink > 1 {
		l := Link{Ino: st.Ino, Count: uint32(min(uint64(st.Nlink), MaxCount)), name: crc32.ChecksumIEEE([]byte(name))}
		if uint64(st.Dev) != dev {
			l.Count = MaxCount
		}
		e.links = append(e.links, l)
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		e.rights = append(e.rights, name)
	}
}

// ruleName returns the name of the rules of which name is another spelling, if the file system treats both as one; otherwise name.
func (r *reader) ruleName(fd int, name string) (meant string, special bool) {
	for _, n := range r.t.g.rules.Names {
		if name == n {
			return n, true
		}
		if strings.EqualFold(name, n) {
			var a, b unix.Stat_t
			if fstatat(fd, name, &a) == nil && fstatat(fd, n, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino {
				return n, true
			}
		}
	}
	return name, slices.Contains(r.t.g.rules.Marks, strings.ToLower(name))
}

// read reads a node's folder and applies the result. fresh are the subfolders that were not known.
func (r *reader) read(n int32) (fresh []int32, err error) {
	t, g := r.t, r.t.g
	g.mu.Lock()
	if !g.reachable(n) {
		g.mu.Unlock()
		return nil, nil
	}
	rel, was := g.rel(n), g.nodes[n].id
	g.mu.Unlock()
	fd, err := g.open(rel, unix.O_RDONLY)
	if err = classify(err); errors.Is(err, fs.ErrPermission) {
		return nil, r.readUnlistable(n, rel)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	watch, err := g.watch(fd, n)
	if err != nil {
		return nil, err
	}
	if watch != 0 {
		if n, err = g.watched(n, watch); err != nil {
			return nil, err
		}
	}
	c, err := r.readFD(fd)
	if err != nil {
		return nil, classify(err)
	}
	if c.id.Dev != was.Dev {
		skip, err := t.device(fd, c.id.Dev)
		if err != nil {
			return nil, err
		}
		if skip {
			c.folder, c.extra, c.marks = nil, extra{}, 0
		}
	}
	g.mu.Lock()
	if g.nodes[n].dead {
		g.mu.Unlock()
		return nil, nil
	}
	fresh = g.apply(n, c)
	hotter := watch != 0 && !g.nodes[n].watchContent && g.contentMatters(n)
	if hotter { // its subfolders may matter as well now
		for c := g.nodes[n].first; c != none; c = g.nodes[c].next {
			if g.nodes[c].watch != 0 {
				g.pend(c, "")
			}
		}
	}
	g.mu.Unlock()
	if hotter {
		_, err = g.watch(fd, n)
	}
	return fresh, err
}

// locked reports whether the folder is ours and we lack the right to list or enter it, so that we could restore the right.
func locked(st *unix.Stat_t) bool {
	me := os.Geteuid()
	return me != 0 && int(st.Uid) == me && st.Mode&0o500 != 0o500
}

// readUnlistable records a folder that can't be listed: its files may be reached by name all the same, or once its owner restores
// the right.
func (r *reader) readUnlistable(n int32, rel string) error {
	g := r.t.g
	g.mu.Lock()
	g.nodes[n].unreadable = true
	g.mu.Unlock()
	fd, err := g.open(rel, openPath)
	if err = classify(err); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil // nor can any other process with our rights
		}
		return err
	}
	defer unix.Close(fd)
	if err := retry(func() error { return unix.Fstat(fd, &r.st) }); err != nil {
		return err
	}
	c := &content{id: identityOf(&r.st)}
	c.closed = passable(fd) || locked(&r.st)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.nodes[n].dead {
		g.apply(n, c)
	}
	return nil
}

// apply updates a node with what was read, and returns the folders that have to be read next.
func (g *graph) apply(n int32, c *content) (fresh []int32) {
	g.looks++
	x := &g.nodes[n]
	if x.id.Dev != c.id.Dev || x.id.Ino != c.id.Ino {
		g.touchBelow(n)
	}
	x.id = c.id
	marks := x.marks
	x.marks = c.marks
	g.note(n, marks, c.extra)
	// Compare the known subfolders with the listed ones. Few names are compared one by one, many through a map.
	var have map[string]int32
	for p := &x.first; *p != none; {
		child := *p
		i := -1
		if len(c.folder) < 8 {
			i = slices.IndexFunc(c.folder, func(l listed) bool { return l.name == g.nodes[child].name })
		} else {
			if have == nil {
				have = make(map[string]int32, len(c.folder))
				for i, l := range c.folder {
					have[l.name] = int32(i)
				}
			}
			if j, ok := have[g.nodes[child].name]; ok {
				i = int(j)
			}
		}
		// A subfolder that is gone, or has another inode number, may have been moved: it is detached until the operation ends.
		if i < 0 || g.nodes[child].entry != c.folder[i].entry {
			*p = g.nodes[child].next
			g.nodes[child].next, g.nodes[child].adrift = none, true
			g.touchBelow(child)
			g.adrift = append(g.adrift, child)
			continue
		}
		c.folder[i].name = ""
		if g.nodes[child].id == (Identity{}) {
			fresh = append(fresh, child) // it has not been read yet
		}
		p = &g.nodes[child].next
	}
	// What has not been matched is new.
	for _, l := range c.folder {
		if l.name != "" {
			fresh = append(fresh, g.add(n, l.name, l.entry))
		}
	}
	return fresh
}

// note updates what is noted of a node. marks are its former marks.
func (g *graph) note(n int32, marks uint8, found extra) {
	slices.SortFunc(found.links, func(a, b Link) int { return cmp.Or(cmp.Compare(a.Ino, b.Ino), cmp.Compare(a.name, b.name)) })
	was := g.noted[n]
	is := !found.empty() || g.rules.shaped(g.nodes[n].marks)
	if was == nil {
		was = &extra{}
	}
	links := slices.Equal(was.links, found.links)
	rest := marks == g.nodes[n].marks && is == g.isNoted(n) && slices.Equal(was.named, found.named) && slices.Equal(was.rights, found.rights) && was.closed == found.closed
	if links && rest {
		return
	}
	if !links {
		g.linkVersion++
	}
	if !rest {
		g.version++
	}
	switch {
	case !is:
		delete(g.noted, n)
	case found.empty():
		g.noted[n] = nil
	default:
		g.noted[n] = &extra{named: slices.Clip(found.named), links: slices.Clone(found.links), rights: slices.Clip(found.rights), closed: found.closed}
	}
}

// errLinks says that the whole folder has to be read.
var errLinks = errors.New("the folder contains hard links")

// checkNames looks at single names in a folder, which are neither folders nor names of the rules.
func (r *reader) checkNames(n int32, names []string) error {
	g := r.t.g
	g.mu.Lock()
	if !g.reachable(n) {
		g.mu.Unlock()
		return nil
	}
	rel, dev := g.rel(n), g.nodes[n].id.Dev
	var now extra
	if e := g.noted[n]; e != nil {
		if len(e.links) > 0 { // it is not known under which name
			g.mu.Unlock()
			return errLinks
		}
		now = extra{named: e.named, closed: e.closed}
		for _, name := range e.rights {
			if !slices.Contains(names, name) {
				now.rights = append(now.rights, name)
			}
		}
	}
	g.mu.Unlock()
	fd, err := g.open(rel, openPath)
	if err != nil {
		return classify(err)
	}
	defer unix.Close(fd)
	for _, name := range names {
		if fstatat(fd, name, &r.st) == nil && uint32(r.st.Mode)&unix.S_IFMT == unix.S_IFREG {
			now.file(name, &r.st, dev)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.nodes[n].dead {
		g.looks++
		g.nodes[n].id.Changed = 0 // the rest of it was not read
		g.note(n, g.nodes[n].marks, now)
	}
	return nil
}
