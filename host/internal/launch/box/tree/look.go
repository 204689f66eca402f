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

// content is what a look into a folder has found.
type content struct {
	id     Identity
	folder []listed // those in it that are to be read as well
	marks  uint8
	extra
}

// listed is a folder as its parent lists it.
type listed struct {
	name  string
	entry uint64
}

// settled is how long ago a folder must have changed for its content to be believed the next time: the kernel's clock for
// files is coarser than what can happen between two looks at it.
const settled = 50 * time.Millisecond

// errMoved says that a folder is not where it was.
var errMoved = errors.New("it is not where it was")

// reader reads folders. Each worker has its own.
type reader struct {
	t   *Tree
	buf []byte
	st  unix.Stat_t
}

func (t *Tree) reader() *reader { return &reader{t: t, buf: make([]byte, 32<<10)} }

// classify makes of an error what it means for a folder that is looked for.
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

// read reads an open folder. below is its path below the root, for messages.
func (r *reader) read(fd int) (*content, error) {
	now := time.Now()
	if err := retry(func() error { return unix.Fstat(fd, &r.st) }); err != nil {
		return nil, err
	}
	c := &content{id: identityOf(&r.st)}
	c.closed = locked(&r.st) // its entries have names, and can't be looked at
	if now.Sub(time.Unix(0, c.id.Changed)) < settled {
		c.id.Changed = 0 // read it again the next time
	}
	err := list(fd, r.buf, func(name string, entry uint64, mode uint32) {
		r.entry(fd, c, name, entry, mode)
	})
	return c, err
}

// entry takes down one name. What is gone by now is left out: who has removed it has changed the folder again.
func (r *reader) entry(fd int, c *content, name string, entry uint64, mode uint32) {
	if mode == unix.S_IFREG || mode == 0 {
		if fstatat(fd, name, &r.st) != nil {
			return
		}
		if mode = uint32(r.st.Mode) & unix.S_IFMT; mode == unix.S_IFREG {
			c.file(name, &r.st, c.id.Dev)
		}
	}
	if int(name[0]) >= 0x80 || r.t.first[name[0]] {
		if text, special := r.meant(fd, name); special {
			r.special(c, text)
			if slices.Contains(r.t.rules.Names, text) {
				if !slices.Contains(c.named, text) {
					c.named = append(c.named, text)
				}
				if !slices.Contains(r.t.rules.Enter, text) {
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
	if i := slices.Index(r.t.rules.Marks, strings.ToLower(name)); i >= 0 {
		c.marks |= 1 << i
	}
}

// file takes down what is of note in a file.
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

// meant is one of the rules' names where a name is another spelling of it and the file system takes both for one; else the name.
func (r *reader) meant(fd int, name string) (meant string, special bool) {
	for _, n := range r.t.rules.Names {
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
	return name, slices.Contains(r.t.rules.Marks, strings.ToLower(name))
}

// look reads a node's folder and takes it down. fresh are those below it that were not known.
func (r *reader) look(n int32) (fresh []int32, err error) {
	t := r.t
	t.mu.Lock()
	if !t.reachable(n) {
		t.mu.Unlock()
		return nil, nil
	}
	rel, was := t.rel(n), t.nodes[n].id
	t.mu.Unlock()
	fd, err := t.open(rel, unix.O_RDONLY)
	if err = classify(err); errors.Is(err, fs.ErrPermission) {
		return nil, r.shut(n, rel)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	watch, err := t.watch(fd, n)
	if err != nil {
		return nil, err
	}
	if watch != 0 {
		if n, err = t.watched(n, watch); err != nil {
			return nil, err
		}
	}
	c, err := r.read(fd)
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
	t.mu.Lock()
	if t.nodes[n].dead {
		t.mu.Unlock()
		return nil, nil
	}
	fresh = t.apply(n, c)
	hotter := watch != 0 && !t.nodes[n].hot && t.heats(n)
	if hotter { // those in it may matter as well now
		for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
			if t.nodes[c].watch != 0 {
				t.pend(c, "")
			}
		}
	}
	t.mu.Unlock()
	if hotter {
		_, err = t.watch(fd, n)
	}
	return fresh, err
}

// locked reports whether a folder of ours lacks a right that we can give it: to be listed, or to be entered.
func locked(st *unix.Stat_t) bool {
	me := os.Geteuid()
	return me != 0 && int(st.Uid) == me && st.Mode&0o500 != 0o500
}

// shut takes down a folder that can't be listed: what is in it may be reached by its name all the same, or once its owner has given
// the right back.
func (r *reader) shut(n int32, rel string) error {
	r.t.mu.Lock()
	r.t.nodes[n].shut = true
	r.t.mu.Unlock()
	fd, err := r.t.open(rel, openPath)
	if err = classify(err); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil // nor can anyone else who has our rights
		}
		return err
	}
	defer unix.Close(fd)
	if err := retry(func() error { return unix.Fstat(fd, &r.st) }); err != nil {
		return err
	}
	c := &content{id: identityOf(&r.st)}
	c.closed = passable(fd) || locked(&r.st)
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if !r.t.nodes[n].dead {
		r.t.apply(n, c)
	}
	return nil
}

// apply makes a node say what a look has found, and returns the folders that have to be looked into next.
func (t *Tree) apply(n int32, c *content) (fresh []int32) {
	t.looks++
	x := &t.nodes[n]
	if x.id.Dev != c.id.Dev || x.id.Ino != c.id.Ino {
		t.touchBelow(n)
	}
	x.id = c.id
	marks := x.marks
	x.marks = c.marks
	t.note(n, marks, c.extra)
	var have map[string]int32
	for p := &x.first; *p != none; {
		child := *p
		i := -1
		if len(c.folder) < 8 {
			i = slices.IndexFunc(c.folder, func(l listed) bool { return l.name == t.nodes[child].name })
		} else {
			if have == nil {
				have = make(map[string]int32, len(c.folder))
				for i, l := range c.folder {
					have[l.name] = int32(i)
				}
			}
			if j, ok := have[t.nodes[child].name]; ok {
				i = int(j)
			}
		}
		if i < 0 || t.nodes[child].entry != c.folder[i].entry {
			*p = t.nodes[child].next
			t.nodes[child].next, t.nodes[child].adrift = none, true
			t.touchBelow(child)
			t.adrift = append(t.adrift, child)
			continue
		}
		c.folder[i].name = ""
		if t.nodes[child].id == (Identity{}) {
			fresh = append(fresh, child) // it was never read
		}
		p = &t.nodes[child].next
	}
	for _, l := range c.folder {
		if l.name != "" {
			fresh = append(fresh, t.add(n, l.name, l.entry))
		}
	}
	return fresh
}

// note makes what is noted of a node be what was found. marks are what it had.
func (t *Tree) note(n int32, marks uint8, found extra) {
	slices.SortFunc(found.links, func(a, b Link) int { return cmp.Or(cmp.Compare(a.Ino, b.Ino), cmp.Compare(a.name, b.name)) })
	was := t.noted[n]
	is := !found.empty() || t.rules.shaped(t.nodes[n].marks)
	if was == nil {
		was = &extra{}
	}
	links := slices.Equal(was.links, found.links)
	rest := marks == t.nodes[n].marks && is == t.isNoted(n) && slices.Equal(was.named, found.named) && slices.Equal(was.rights, found.rights) && was.closed == found.closed
	if links && rest {
		return
	}
	if !links {
		t.linkVersion++
	}
	if !rest {
		t.version++
	}
	switch {
	case !is:
		delete(t.noted, n)
	case found.empty():
		t.noted[n] = nil
	default:
		t.noted[n] = &extra{named: slices.Clip(found.named), links: slices.Clone(found.links), rights: slices.Clip(found.rights), closed: found.closed}
	}
}

// errLinks says that a folder has to be read as a whole.
var errLinks = errors.New("there are files with other names in it")

// touch looks at single names in a folder that stand for no folder and for nothing special.
func (r *reader) touch(n int32, names []string) error {
	t := r.t
	t.mu.Lock()
	if !t.reachable(n) {
		t.mu.Unlock()
		return nil
	}
	rel, dev := t.rel(n), t.nodes[n].id.Dev
	var now extra
	if e := t.noted[n]; e != nil {
		if len(e.links) > 0 { // of which name is not known
			t.mu.Unlock()
			return errLinks
		}
		now = extra{named: e.named, closed: e.closed}
		for _, name := range e.rights {
			if !slices.Contains(names, name) {
				now.rights = append(now.rights, name)
			}
		}
	}
	t.mu.Unlock()
	fd, err := t.open(rel, openPath)
	if err != nil {
		return classify(err)
	}
	defer unix.Close(fd)
	for _, name := range names {
		if fstatat(fd, name, &r.st) == nil && uint32(r.st.Mode)&unix.S_IFMT == unix.S_IFREG {
			now.file(name, &r.st, dev)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.nodes[n].dead {
		t.looks++
		t.nodes[n].id.Changed = 0 // the rest of it was not read
		t.note(n, t.nodes[n].marks, now)
	}
	return nil
}
