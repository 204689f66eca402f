// Package binary opens a plugin's executable once and says which content it has.
//
// It owns: the SHA-256 of a file by its open descriptor, the records that spare hashing a file that has not changed, copies
// that can be executed and not read, and what can be wrong with a file that doesn't start. It must not know: lock files, manifests, processes.
//
// Start with [Open]. What is executed afterwards is the descriptor, so that nothing can be put in its place.
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
	// Script: the file starts with #!, so its interpreter opens the path again.
	Script bool
}

// Records remember the digests of files in a folder of the user's own (0700). The zero value remembers nothing.
type Records struct {
	// Dir is made when it is needed.
	Dir string
	// Always hashes every time.
	Always bool
}

// settled is how old the last change of a file must be before its digest is remembered. A change within the same tick of
// the file system's clock would otherwise look like none.
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
			return nil, fmt.Errorf("%s has %d bytes and is no program", path, info.Size())
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

// openFile opens a file without waiting: a pipe has perhaps no writer.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Digest is the SHA-256, in lower-case hex, of a file that a program is told to run; it need not be executable itself.
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

// digest hashes an open file, unless it is the one that was hashed before.
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
		// Only a file that stayed as it was while it was read, and for a while before, is remembered.
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

// identity is what changes whenever the content of a file may have changed.
type identity struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	// Nanoseconds since 1970. Mtime can be set by anybody who can write the file, Ctime can't.
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

// write remembers a digest. That it could not only costs the next start some milliseconds.
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

// WriteFile writes a small file of ours (0600, in a 0700 folder) so that readers see the old content or the new.
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
