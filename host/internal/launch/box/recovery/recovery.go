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

// Records are the records of all gantry processes that share a home folder.
type Records struct {
	Dir string // empty: nothing is recorded

	mu      sync.Mutex
	decided bool
	pipe    *os.File
}

// Lock is a record that this process has written and keeps locked: commands are running in a folder.
type Lock struct {
	file *os.File // locked
}

// Record says in which folder commands run, and what was there before.
type Record struct {
	Root string
	// The identity of the folder, which may have been renamed since.
	Dev, Ino uint64
	Born     int64
	Held     []string // the pipes of the gantry processes whose commands may still be running there
	Parts    []File
	Named    map[string]string // the paths that git's settings named
}

// File is a file that was there before. One that was restored from a backup has another identity and the same digest.
type File struct {
	Path          string
	Kind          int
	Dev, Ino      uint64
	Changed, Size int64
	Digest        string `json:",omitempty"`
}

const (
	// maxRecord bounds what is read of a record.
	maxRecord = 64 << 20
	// staleAfter is the age after which an unfinished record has no owner any more: writing one takes milliseconds.
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

// path returns the path of the record.
func (m *Lock) path() string { return strings.TrimSuffix(m.file.Name(), ".new") + ".mark" }

// Renew updates the record's time: what is in the folder by now belongs to the user.
func (m *Lock) Renew() {
	now := time.Now()
	_ = os.Chtimes(m.path(), now, now) // on failure less is taken for the user's, which is safe
}

// Remove deletes the record: nothing is left to check.
func (m *Lock) Remove() {
	_ = os.Remove(m.path()) // if it stays, the next gantry checks the folder
	_ = m.file.Close()
}

// Release leaves the record to the next gantry.
func (m *Lock) Release() {
	Unlock(m.file)
	_ = m.file.Close()
}

// matches reports whether dir is the folder of the record.
func (r *Record) matches(dir string) bool {
	id, mode, ok := fspath.Lstat(dir)
	return ok && mode.IsDir() && (r.Ino == 0 || fspath.Persistent(dir, id) == fspath.Identity{Dev: r.Dev, Ino: r.Ino, Changed: r.Born})
}

// Find looks for the folder of the record: at its path, at root, or under another name in the same parent folder.
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

// Orphan is a record whose process has ended.
type Orphan struct {
	Record
	Lock  *os.File // held by us
	Path  string
	Began time.Time
}

// Orphans returns the records without an owner that concern root: those for it, for folders above it and for folders in it. The
// caller closes their locks.
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
		case ".new": // its owner is about to lock it, or was killed before any command ran
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
				_ = os.Remove(path)
			}
			continue
		case ".pipe": // of a gantry that was killed without leaving a record
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
		if lock(f) != nil { // its owner is alive
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
			return list, fmt.Errorf("the record %s of commands of a gantry process that was killed can't be read: %w; check what they have left, then remove the record", path, err)
		}
		if o.Root != root && !fspath.Below(o.Root, root) && !fspath.Below(root, o.Root) && (o.Ino == 0 || !o.matches(root)) {
			f.Close()
			continue
		}
		list = append(list, o)
	}
	return list, nil
}

// Write writes and locks a record that survives a crash of the machine. It returns nil if gantry's folder is read-only.
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

// ensurePipe returns the pipe of this process, or nil if there is none.
func (m *Records) ensurePipe() *os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.decided || m.Dir == "" || os.MkdirAll(m.Dir, 0o700) != nil {
		return m.pipe
	}
	m.decided = true
	m.pipe, _ = makePipe(filepath.Join(m.Dir, newName()+".pipe")) // without a pipe, what a killed gantry has left is checked once
	return m.pipe
}

// Drop removes the pipe: no process is left.
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

// Pipes opens the pipes that a record names, as far as processes still hold them.
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

// HeldFile returns another descriptor of this process's pipe, which the caller closes, or nil.
func (m *Records) HeldFile() *os.File {
	m.ensurePipe()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pipe == nil {
		return nil
	}
	return duplicate(m.pipe)
}

// Abandon closes the pipe without removing it, as the end of the process would.
func (m *Records) Abandon() {
	if f := m.ensurePipe(); f != nil {
		m.mu.Lock()
		m.pipe = nil
		m.mu.Unlock()
		_ = f.Close()
	}
}
