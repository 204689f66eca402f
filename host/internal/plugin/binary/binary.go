// Package binary opens a plugin's executable and determines its digest.
//
// It owns: the SHA-256 of an open file, the records that avoid hashing unchanged files, copies that can be executed but not
// read, and the diagnosis of files that can't be executed. It must not know: lock files, manifests, processes.
//
// Start with [Open]. The open descriptor is executed later, so that the file can't be replaced in between.
package binary

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// File is an open executable.
type File struct {
	*os.File
	Path   string
	SHA256 string // lower-case hex
	// Script reports whether the file begins with #!. Its interpreter opens the path again.
	Script bool
}

// Records store the digests of files in a private folder (0700). The zero value stores nothing.
type Records struct {
	// Dir is created when it is needed.
	Dir string
	// Always makes a file be hashed even if there is a record of it.
	Always bool
}

// settled is how old the last change of a file must be for its digest to be recorded. Otherwise, a change within the resolution
// of the file system's timestamps would not be noticed.
const settled = 2 * time.Second

// Open opens and hashes the executable at path. The caller closes it.
func Open(path string, r Records) (*File, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file but %s", path, kind(info.Mode()))
	}
	if !executable(info) {
		return nil, fmt.Errorf("%s is not executable: %w", path, fs.ErrPermission)
	}
	var head [2]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s is not a program; it has %d bytes", path, info.Size())
		}
		return nil, err
	}
	file := &File{File: f, Path: path, Script: head == [2]byte{'#', '!'}}
	if file.SHA256, err = r.digest(f, info, path); err != nil {
		return nil, err
	}
	ok = true
	return file, nil
}

// openFile opens a file. It doesn't block if the file is a pipe without a writer.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Digest returns the SHA-256, in lower-case hex, of a file that need not be executable, such as the argument of an interpreter.
func Digest(path string, r Records) (string, error) {
	f, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file but %s", path, kind(info.Mode()))
	}
	return r.digest(f, info, path)
}

// digest hashes an open file, unless there is a record of it.
func (r Records) digest(f *os.File, info fs.FileInfo, path string) (string, error) {
	id, stable := identify(info)
	if stable && !r.Always {
		if rec, found := r.read(path); found && rec.identity == id {
			return rec.SHA256, nil
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if stable {
		// Record it only if the file did not change while it was read, nor shortly before.
		now := time.Now()
		if again, err := f.Stat(); err == nil {
			if id2, _ := identify(again); id2 == id && id.older(now.Add(-settled)) {
				r.write(path, record{id, sum})
			}
		}
	}
	return sum, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// identity changes whenever the content of a file may have changed.
type identity struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	// Nanoseconds since 1970. Unlike Ctime, Mtime can be set by users who can write the file.
	Mtime int64 `json:"mtime"`
	Ctime int64 `json:"ctime"`
}

func (id identity) older(t time.Time) bool {
	return id.Mtime < t.UnixNano() && id.Ctime < t.UnixNano()
}

type record struct {
	identity
	SHA256 string `json:"sha256"`
}

func (r Records) file(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(r.Dir, hex.EncodeToString(sum[:16])+".json")
}

func (r Records) read(path string) (record, bool) {
	if r.Dir == "" {
		return record{}, false
	}
	b, err := os.ReadFile(r.file(path))
	if err != nil {
		return record{}, false
	}
	var rec record
	if err := json.Unmarshal(b, &rec); err != nil || len(rec.SHA256) != sha256.Size*2 {
		return record{}, false
	}
	return rec, true
}

// write records a digest. It ignores errors, which only cost the next start some milliseconds.
func (r Records) write(path string, rec record) {
	if r.Dir == "" {
		return
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return
	}
	_ = WriteFile(r.file(path), b)
}

// WriteFile atomically writes a small private file (0600), and creates its folder (0700) if necessary.
func WriteFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
