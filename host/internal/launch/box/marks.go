package box

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A gantry that is killed can't judge what its commands have made. So before the first of them begins a mark is written, with the parts
// that were there, and locked for as long as the process lives. The next gantry that comes to the folder and finds a mark without an owner
// judges in its place: what the mark does not name is moved aside.

// markings are the marks of all processes that share gantry's folder.
type markings struct {
	dir string // empty: there are none

	mu     sync.Mutex
	opened bool
	pipe   *os.File
}

// mark says that commands run in a root.
type mark struct {
	file *os.File // locked
}

// record is what a mark says.
type record struct {
	Root string
	// Which folder it is, wherever it lies by then.
	Dev, Ino uint64
	Born     int64
	Held     []string // the pipes of those whose processes may still run there
	Parts    []noted
	Named    map[string]string // what git's settings named
}

// noted is a part that was there. One that a backup has put back has another identity and the same digest.
type noted struct {
	Path          string
	Kind          kind
	Dev, Ino      uint64
	Changed, Size int64
	Digest        string `json:",omitempty"`
}

const (
	// maxMark bounds what is read of a mark.
	maxMark = 64 << 20
	// staleMark is the age from which a mark that was never finished has no owner any more: writing one takes milliseconds.
	staleMark = time.Hour
	// longestMark is how long the mark of a folder stays that another has taken the place of.
	longestMark = 30 * 24 * time.Hour
	// maxDigest is the longest file of which a digest is made.
	maxDigest = 1 << 20
)

// digest is that of a part's content; empty: there is none.
func (p part) digest() string {
	in, err := os.OpenRoot(p.root)
	if err != nil {
		return ""
	}
	defer in.Close()
	info, err := in.Lstat(p.path)
	if err != nil {
		return ""
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := in.Readlink(p.path)
		if err != nil {
			return ""
		}
		return "-> " + to
	}
	if !info.Mode().IsRegular() || info.Size() > maxDigest {
		return ""
	}
	f, err := in.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxDigest+1)); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// note marks a root, in which somebody is about to work, with the parts that are there.
func (h *guests) note(root string, found *parts, known map[fspath.Identity]bool) error {
	at := h.ground(root)
	if at.off != nil {
		at.off.Stop()
	}
	if at.mark != nil && maps.Equal(at.marked, known) && maps.Equal(at.named, found.named) {
		at.mark.renew()
		return nil
	}
	r := record{Root: root, Named: found.named}
	if id, _, ok := fspath.Lstat(root); ok {
		id = fspath.Persistent(root, id)
		r.Dev, r.Ino, r.Born = id.Dev, id.Ino, id.Changed
	}
	digests := map[fspath.Identity]string{}
	for _, p := range found.list {
		if p.root != root {
			continue
		}
		d, ok := at.digests[p.id]
		if !ok {
			d = p.digest()
		}
		digests[p.id] = d
		r.Parts = append(r.Parts, noted{Path: p.path, Kind: p.kind, Dev: p.id.Dev, Ino: p.id.Ino, Changed: p.id.Changed, Size: p.id.Size, Digest: d})
	}
	m, err := h.write(r)
	if err != nil {
		return fmt.Errorf("what is executed later in %s can't be kept for the case that gantry is killed: %w; make room for gantry's folder", root, err)
	}
	if at.mark != nil {
		at.mark.remove()
	}
	at.mark, at.record, at.marked, at.digests = m, r, known, digests
	return nil
}

func (h *guests) write(r record) (*mark, error) {
	if f := h.marks.held(); f != nil && !slices.Contains(r.Held, filepath.Base(f.Name())) {
		r.Held = append(slices.Clone(r.Held), filepath.Base(f.Name()))
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return h.marks.write(b)
}

// is reports whether a folder is the one of the record.
func (r *record) is(dir string) bool {
	id, mode, ok := fspath.Lstat(dir)
	return ok && mode.IsDir() && (r.Ino == 0 || fspath.Persistent(dir, id) == fspath.Identity{Dev: r.Dev, Ino: r.Ino, Changed: r.Born})
}

// find looks for the folder of a record: where it was, at root, or under another name beside it.
func (r *record) find(root string) (found bool) {
	if r.is(r.Root) {
		return true
	}
	if r.Ino != 0 && r.is(root) {
		r.Root = root
		return true
	}
	above := filepath.Dir(r.Root)
	entries, _ := os.ReadDir(above)
	for _, e := range entries {
		if p := filepath.Join(above, e.Name()); r.Ino != 0 && e.IsDir() && r.is(p) {
			r.Root = p
			return true
		}
	}
	return false
}

// write makes a mark that outlives the machine's end. nil: gantry's folder can't be written.
func (m *markings) write(b []byte) (*mark, error) {
	if m.dir == "" {
		return nil, nil
	}
	path := filepath.Join(m.dir, newName())
	err := os.MkdirAll(m.dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err = lock(f); err == nil {
		if _, err = f.Write(b); err == nil {
			err = f.Sync()
		}
	}
	if err == nil {
		err = os.Rename(path+".new", path+".mark")
	}
	if err == nil {
		err = syncFolder(m.dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path+".new"))
	}
	return &mark{file: f}, nil
}

func newName() string { return strings.ToLower(rand.Text()) }

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// path is where a mark lies.
func (m *mark) path() string { return strings.TrimSuffix(m.file.Name(), ".new") + ".mark" }

// renew notes that what is there is the user's until now: the time of the file says so.
func (m *mark) renew() {
	now := time.Now()
	_ = os.Chtimes(m.path(), now, now) // an older time makes less be taken for the user's
}

// remove takes a mark away: nothing is left to judge.
func (m *mark) remove() {
	_ = os.Remove(m.path()) // one that stays is judged by the next gantry
	_ = m.file.Close()
}

// leave gives a mark up for the next gantry.
func (m *mark) leave() {
	unlock(m.file)
	_ = m.file.Close()
}

// orphan is a mark whose process is gone.
type orphan struct {
	record
	file  *os.File // locked by us
	path  string
	began time.Time
}

// orphans are the marks without an owner that have to do with a root: its own, of those above it and of those in it.
func (m *markings) orphans(root string) (list []orphan, err error) {
	if m.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, nil // there are none
	}
	for _, e := range entries {
		path := filepath.Join(m.dir, e.Name())
		switch filepath.Ext(path) {
		case ".mark":
		case ".new": // its owner is about to lock it, or was killed before anything ran
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleMark {
				_ = os.Remove(path)
			}
			continue
		case ".pipe": // of one that was killed, and had left no mark
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleMark {
				if f := openPipe(path); f != nil {
					_ = f.Close()
				} else {
					_ = os.Remove(path)
				}
			}
			continue
		default:
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // its owner has removed it
		}
		if lock(f) != nil { // its owner lives
			f.Close()
			continue
		}
		o := orphan{file: f, path: path}
		b, err := io.ReadAll(io.LimitReader(f, maxMark))
		if err == nil {
			err = json.Unmarshal(b, &o.record)
		}
		if info, err := f.Stat(); err == nil {
			o.began = info.ModTime()
		}
		if err != nil {
			f.Close()
			return list, fmt.Errorf("the mark %s of commands of a gantry that was killed can't be read: %w; look for what they have left, then remove it", path, err)
		}
		if o.Root != root && !fspath.Below(o.Root, root) && !fspath.Below(root, o.Root) && (o.Ino == 0 || !o.is(root)) {
			f.Close()
			continue
		}
		list = append(list, o)
	}
	return list, nil
}

// recover judges what commands of a gantry that was killed have made in a root. The caller holds h.mu.
func (h *guests) recover(root string, owner launch.Owner) (words []word, err error) {
	list, err := h.marks.orphans(root)
	defer func() {
		for _, o := range list {
			if o.file != nil {
				o.file.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	for i := range list {
		o := &list[i]
		if !o.find(root) {
			if !fspath.IsDir(o.Root) || time.Since(o.began) > longestMark {
				_ = os.Remove(o.path)
			}
			continue
		}
		pipes := h.marks.left(&o.record) // before it is judged
		ids, digests := map[fspath.Identity]bool{}, map[string]bool{}
		for _, n := range o.Parts {
			ids[fspath.Identity{Dev: n.Dev, Ino: n.Ino, Changed: n.Changed, Size: n.Size}] = true
			if n.Digest != "" {
				digests[n.Path+"\x00"+n.Digest] = true
			}
		}
		after, moved, err := h.clear(past{known: ids, began: o.began}, nil, func() (*parts, error) {
			after, err := h.index.look([]string{o.Root}, nil, ids)
			if err != nil {
				return nil, err
			}
			if o.Named != nil {
				after.since(o.began, &parts{named: o.Named})
			}
			for _, p := range after.list {
				if d := p.digest(); d != "" && digests[p.path+"\x00"+d] {
					ids[p.id] = true
				}
			}
			return after, nil
		})
		if after != nil && (len(moved) > 0 || err != nil) {
			words = append(words, word{owner: owner, moved: moved, err: err})
		}
		sure := after != nil && !after.moved && err == nil
		switch {
		case sure && len(pipes) > 0:
			if err := h.adopt(owner, o, ids, pipes); err != nil {
				closeAll(pipes)
				return words, err
			}
			continue
		case sure:
			_ = os.Remove(o.path)
		}
		closeAll(pipes)
		if after == nil {
			return words, err
		}
	}
	return words, nil
}

// watch has the folders of roots read, in the background, and judges what a gantry that was killed has left in them.
func (h *guests) watch(owner launch.Owner, roots []string) error {
	h.mu.Lock()
	var words []word
	var err error
	for _, root := range fspath.Outermost(roots) {
		if h.closed {
			break
		}
		var w []word
		w, err = h.recover(root, owner)
		words = append(words, w...)
		if err != nil {
			break
		}
		if _, err = h.index.plant(root); err != nil {
			break
		}
	}
	h.mu.Unlock()
	h.say(words...)
	return err
}
