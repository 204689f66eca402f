// Package artifacts keeps content in files whose names are the SHA-256 of what is in them.
//
// It owns: the folder and its lock, putting, verifying and removing files. It must not know: what an artifact is, who
// refers to it.
//
// Start with [Folder].
package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
)

// verifyFirstBytes is the size up to which content is verified before its first byte is returned. Larger content is verified
// while it is read; if it is damaged, the reader returns an error instead of EOF.
const verifyFirstBytes = 8 << 20

// Folder is a folder of content-addressed files, which several processes may use.
//
//	ab/abcdef…  content, complete and immutable
//	tmp/        content that is being written
//	lock        locked shared while a file is put in place, exclusively while files are removed
type Folder struct {
	Dir      string
	MaxBytes int64 // of one file
}

// Path returns the path of the file with a digest.
func (a Folder) Path(digest string) string { return filepath.Join(a.Dir, digest[:2], digest) }

func (a Folder) tmp() string  { return filepath.Join(a.Dir, "tmp") }
func (a Folder) lock() string { return filepath.Join(a.Dir, "lock") }

// Temp creates a temporary file in the folder. If the process ends before it removes the file, [Folder.Old] does so.
func (a Folder) Temp(pattern string) (*os.File, error) {
	if err := os.MkdirAll(a.tmp(), 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(a.tmp(), pattern)
}

// Put writes content to a temporary file and moves it into place. It does not wait for the disk; see [Folder.Sync]. used is the
// modification time of the file, which is renewed whenever its content is put again.
func (a Folder) Put(ctx context.Context, r io.Reader) (digest string, size int64, used time.Time, err error) {
	f, err := a.Temp("put-")
	if err != nil {
		return "", 0, used, err
	}
	placed := false
	defer func() {
		if !placed {
			err = errors.Join(err, ignoreNotExist(os.Remove(f.Name())))
		}
	}()
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, h), io.LimitReader(NewReader(ctx, r), a.MaxBytes+1))
	if err == nil && size > a.MaxBytes {
		err = fmt.Errorf("it exceeds the limit of %d bytes", a.MaxBytes)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, used, err
	}
	crashpoint.At(crashpoint.ArtifactWritten, "")
	digest = hex.EncodeToString(h.Sum(nil))
	err = flock.With(ctx, a.lock(), false, func() error {
		path := a.Path(digest)
		if a.has(ctx, digest, size) {
			now := time.Now()
			if err := os.Chtimes(path, now, now); err != nil {
				return err
			}
		} else { // missing, cut short by a crash of the machine, or damaged
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			if err := os.Rename(f.Name(), path); err != nil {
				return err
			}
			placed = true
			crashpoint.At(crashpoint.ArtifactPlaced, "")
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		used = info.ModTime() // as exactly as this file system keeps it
		return nil
	})
	return digest, size, used, err
}

// has reports whether the content exists and is undamaged. Putting content again replaces a damaged file.
func (a Folder) has(ctx context.Context, digest string, size int64) bool {
	info, err := os.Stat(a.Path(digest))
	if err != nil || !info.Mode().IsRegular() || info.Size() != size {
		return false
	}
	r, err := a.Open(digest)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, NewReader(ctx, r))
	return errors.Join(err, r.Close()) == nil
}

// NewReader returns a reader of r that fails when ctx ends.
func NewReader(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// Sync makes the files with these digests survive a crash of the machine.
func (a Folder) Sync(digests ...string) error {
	folders := map[string]bool{}
	for _, digest := range digests {
		path := a.Path(digest)
		if err := syncPath(path); err != nil {
			return err
		}
		folders[filepath.Dir(path)] = true
	}
	for dir := range folders {
		if err := syncPath(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by hand; readers get an error
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open opens content, and verifies it against the digest: up to 8 MiB before Open returns, larger content by the time that the
// reader would return io.EOF. Damaged content is a [*CorruptError]. If there is no such file, the error is fs.ErrNotExist.
func (a Folder) Open(digest string) (io.ReadCloser, error) {
	if !IsDigest(digest) { // rejects paths as well
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(a.Path(digest))
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	r := &verifiedReader{f: f, h: sha256.New(), digest: digest}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read artifact: %w", err), f.Close())
	}
	if info.Size() > verifyFirstBytes {
		return r, nil
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// verifiedReader returns a [*CorruptError] at the end of content that does not match its digest.
type verifiedReader struct {
	f      *os.File
	h      hash.Hash
	digest string
}

func (v *verifiedReader) Read(p []byte) (int, error) {
	n, err := v.f.Read(p)
	v.h.Write(p[:n])
	if err == io.EOF {
		if got := hex.EncodeToString(v.h.Sum(nil)); got != v.digest {
			return n, &CorruptError{SHA256: v.digest, Path: v.f.Name(), Got: got}
		}
	}
	return n, err
}

func (v *verifiedReader) Close() error { return v.f.Close() }

// Unused is an artifact whose row was deleted. Its file is removed too, unless it was put again since UsedAt.
type Unused struct {
	SHA256 string `gorm:"column:sha256"`
	Size   int64
	UsedAt int64
}

// Remove runs find, which deletes the rows of artifacts, and removes their files. Until it returns, [Folder.Put] waits in every
// process, so that it can't find a file that is about to be removed.
func (a Folder) Remove(ctx context.Context, find func(context.Context) ([]Unused, error)) (n int, bytes int64, err error) {
	err = flock.With(ctx, a.lock(), true, func() error {
		list, err := find(ctx)
		if err != nil {
			return err
		}
		crashpoint.At(crashpoint.ArtifactsForgotten, "")
		n, bytes, err = a.remove(list)
		return err
	})
	return n, bytes, err
}

func (a Folder) remove(list []Unused) (n int, bytes int64, err error) {
	var errs []error
	for _, u := range list {
		path := a.Path(u.SHA256)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if info.ModTime().UnixNano() > u.UsedAt {
				continue // a new row for it will be committed soon
			}
			err = os.Remove(path)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		n++
		bytes += info.Size()
	}
	return n, bytes, errors.Join(errs...)
}

// Old returns the files that are older than cutoff, and removes temporary files of that age.
func (a Folder) Old(cutoff time.Time) ([]Unused, error) {
	var list []Unused
	err := filepath.WalkDir(a.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreNotExist(err)
		}
		info, err := d.Info()
		if err != nil || !info.ModTime().Before(cutoff) {
			return ignoreNotExist(err)
		}
		if filepath.Dir(path) == a.tmp() {
			return ignoreNotExist(os.Remove(path))
		}
		if IsDigest(d.Name()) && path == a.Path(d.Name()) {
			list = append(list, Unused{SHA256: d.Name(), Size: info.Size(), UsedAt: info.ModTime().UnixNano()})
		}
		return nil
	})
	return list, err
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// DigestLen is the length of a SHA-256 digest in hex.
const DigestLen = 64

// IsHex reports whether c may be part of a digest.
func IsHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// IsDigest reports whether s has the form of a digest.
func IsDigest(s string) bool {
	if len(s) != DigestLen {
		return false
	}
	for i := range len(s) {
		if !IsHex(s[i]) {
			return false
		}
	}
	return true
}

// CorruptError says that stored content is not what its digest says.
type CorruptError struct {
	SHA256 string
	Path   string
	Got    string // the digest that it has
}

// Error implements error.
func (e *CorruptError) Error() string {
	return hint.Line(fmt.Sprintf("artifact %s is damaged (its content has digest %s)", e.SHA256, e.Got), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *CorruptError) NextStep() string {
	return fmt.Sprintf("restore %s from a backup, or remove it", e.Path)
}
