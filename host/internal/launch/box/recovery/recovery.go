// Package recovery records on disk in which folders commands are running, and what was there before. If gantry is killed, the next one reads
// the record and checks what those commands have left.
//
// It owns: the files of the records and their locks, the pipes by which the end of a killed gantry's processes is noticed. It must not
// know: what is checked, what becomes of it.
//
// Start with [Records].
package recovery

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Records are the marks of all processes that share gantry's folder.
type Records struct {
	Dir string // empty: there are none

	mu      sync.Mutex
	decided bool
	pipe    *os.File
}

// Lock says that commands run in a root.
type Lock struct {
	file *os.File // locked
}

// Record is what a mark says.
type Record struct {
	Root string
	// Which folder it is, wherever it lies by then.
	Dev, Ino uint64
	Born     int64
	Held     []string // the pipes of those whose processes may still run there
	Parts    []File
	Named    map[string]string // what git's settings named
}

// File is a part that was there. One that a backup has put back has another identity and the same digest.
type File struct {
	Path          string
	Kind          int
	Dev, Ino      uint64
	Changed, Size int64
	Digest        string `json:",omitempty"`
}

const (
	// maxRecord bounds what is read of a mark.
	maxRecord = 64 << 20
	// staleAfter is the age from which a mark that was never finished has no owner any more: writing one takes milliseconds.
	staleAfter = time.Hour
)

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func newName() string { return strings.ToLower(rand.Text()) }

// path is where a mark lies.
func (m *Lock) path() string { return strings.TrimSuffix(m.file.Name(), ".new") + ".mark" }

// Renew notes that what is there is the user's until now: the time of the file says so.
func (m *Lock) Renew() {
	now := time.Now()
	_ = os.Chtimes(m.path(), now, now) // an older time makes less be taken for the user's
}

// Remove takes a mark away: nothing is left to judge.
func (m *Lock) Remove() {
	_ = os.Remove(m.path()) // one that stays is judged by the next gantry
	_ = m.file.Close()
}

// Release gives a mark up for the next gantry.
func (m *Lock) Release() {
	Unlock(m.file)
	_ = m.file.Close()
}

// matches reports whether a folder is the one of the record.
func (r *Record) matches(dir string) bool {
	id, mode, ok := fspath.Lstat(dir)
	return ok && mode.IsDir() && (r.Ino == 0 || fspath.Persistent(dir, id) == fspath.Identity{Dev: r.Dev, Ino: r.Ino, Changed: r.Born})
}

// Find looks for the folder of a record: where it was, at root, or under another name beside it.
func (r *Record) Find(root string) (found bool) {
	if r.matches(r.Root) {
		return true
	}
	if r.Ino != 0 && r.matches(root) {
		r.Root = root
		return true
	}
	above := filepath.Dir(r.Root)
	entries, _ := os.ReadDir(above)
	for _, e := range entries {
		if p := filepath.Join(above, e.Name()); r.Ino != 0 && e.IsDir() && r.matches(p) {
			r.Root = p
			return true
		}
	}
	return false
}

// Orphan is a mark whose process is gone.
type Orphan struct {
	Record
	Lock  *os.File // locked by us
	Path  string
	Began time.Time
}

// Orphans are the marks without an owner that have to do with a root: its own, of those above it and of those in it.
func (m *Records) Orphans(root string) (list []Orphan, err error) {
	if m.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, nil // there are none
	}
	for _, e := range entries {
		path := filepath.Join(m.Dir, e.Name())
		switch filepath.Ext(path) {
		case ".mark":
		case ".new": // its owner is about to lock it, or was killed before anything ran
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
				_ = os.Remove(path)
			}
			continue
		case ".pipe": // of one that was killed, and had left no mark
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
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
		o := Orphan{Lock: f, Path: path}
		b, err := io.ReadAll(io.LimitReader(f, maxRecord))
		if err == nil {
			err = json.Unmarshal(b, &o.Record)
		}
		if info, err := f.Stat(); err == nil {
			o.Began = info.ModTime()
		}
		if err != nil {
			f.Close()
			return list, fmt.Errorf("the mark %s of commands of a gantry that was killed can't be read: %w; look for what they have left, then remove it", path, err)
		}
		if o.Root != root && !fspath.Below(o.Root, root) && !fspath.Below(root, o.Root) && (o.Ino == 0 || !o.matches(root)) {
			f.Close()
			continue
		}
		list = append(list, o)
	}
	return list, nil
}

// Write makes a mark that outlives the machine's end. nil: gantry's folder can't be written.
func (m *Records) Write(r Record) (*Lock, error) {
	if f := m.ensurePipe(); f != nil && !slices.Contains(r.Held, filepath.Base(f.Name())) {
		r.Held = append(slices.Clone(r.Held), filepath.Base(f.Name()))
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if m.Dir == "" {
		return nil, nil
	}
	path := filepath.Join(m.Dir, newName())
	err = os.MkdirAll(m.Dir, 0o700)
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
		err = syncFolder(m.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path+".new"))
	}
	return &Lock{file: f}, nil
}

// ensurePipe is the pipe of this gantry; nil: there is none.
func (m *Records) ensurePipe() *os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.decided || m.Dir == "" || os.MkdirAll(m.Dir, 0o700) != nil {
		return m.pipe
	}
	m.decided = true
	m.pipe, _ = makePipe(filepath.Join(m.Dir, newName()+".pipe")) // without it, what is left is judged once
	return m.pipe
}

// Drop removes the pipe: nothing is left.
func (m *Records) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decided = true
	if f := m.pipe; f != nil {
		m.pipe = nil
		_ = os.Remove(f.Name())
		_ = f.Close()
	}
}

// Pipes are the pipes of those that a record names, as far as somebody holds them.
func (m *Records) Pipes(r *Record) (pipes []*os.File) {
	for _, name := range r.Held {
		if name != filepath.Base(name) {
			continue
		}
		path := filepath.Join(m.Dir, name)
		if f := openPipe(path); f != nil {
			pipes = append(pipes, f)
		} else {
			_ = os.Remove(path)
		}
	}
	return pipes
}

func CloseAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// HeldFile is another descriptor of the pipe of this gantry, which the caller closes; nil: there is none.
func (m *Records) HeldFile() *os.File {
	m.ensurePipe()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pipe == nil {
		return nil
	}
	return duplicate(m.pipe)
}

// Abandon gives the pipe up as the end of the process would.
func (m *Records) Abandon() {
	if f := m.ensurePipe(); f != nil {
		m.mu.Lock()
		m.pipe = nil
		m.mu.Unlock()
		_ = f.Close()
	}
}
