package store

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
	"strings"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

const (
	// DefaultMaxArtifactBytes bounds one artifact. A plugin that streams more gets an error.
	DefaultMaxArtifactBytes = 1 << 30

	// verifyFirstBytes is up to which size an artifact is checked before its first byte is handed out. Larger ones are
	// checked on the way, and a damaged one ends with an error instead of EOF.
	verifyFirstBytes = 8 << 20

	// maxNameBytes bounds the name of an artifact; it is only shown.
	maxNameBytes = 255
)

// PutArtifact stores content under its SHA-256 and returns its reference. Equal content is stored once. It is kept while a
// stored thread mentions it, and for a day after it was put.
func (s *Store) PutArtifact(ctx context.Context, mediaType, name string, r io.Reader) (contract.ArtifactRef, error) {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	ref := contract.ArtifactRef{MediaType: mediaType, Name: cleanName(name)}
	digest, size, used, err := s.files.put(ctx, r)
	if err != nil {
		return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", ref.Name, err)
	}
	ref.SHA256, ref.SizeBytes = digest, size
	row := &artifactRow{
		SHA256: digest, Size: size, MediaType: mediaType, Name: ref.Name, CreatedAt: time.Now().UnixNano(),
		UsedAt: used.UnixNano(),
	}
	// Behind it, in the same order, come the events that mention it.
	if err := s.sink.deliver(ctx, entry{artifact: row}); err != nil {
		return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", ref.Name, err)
	}
	crashpoint.At(crashpoint.ArtifactQueued, "")
	return ref, nil
}

// Artifact opens stored content. What it reads was checked against the digest: up to 8 MiB before Artifact returns, beyond
// that by the time that the reader would return io.EOF. A [*NotFoundError] or a [*CorruptError] says what is wrong.
func (s *Store) Artifact(_ context.Context, digest string) (io.ReadCloser, error) {
	return s.files.open(digest)
}

// ArtifactInfo returns what is known of an artifact.
func (s *Store) ArtifactInfo(ctx context.Context, digest string) (contract.ArtifactRef, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return contract.ArtifactRef{}, err
	}
	var rows []artifactRow
	if err := g.Where("sha256 = ?", digest).Find(&rows).Error; err != nil {
		return contract.ArtifactRef{}, s.db.Explain(err)
	}
	if len(rows) == 0 {
		return contract.ArtifactRef{}, &NotFoundError{What: "artifact", ID: digest}
	}
	a := rows[0]
	return contract.ArtifactRef{SHA256: a.SHA256, SizeBytes: a.Size, MediaType: a.MediaType, Name: a.Name}, nil
}

// ThreadArtifacts lists the artifacts that a thread mentions.
func (s *Store) ThreadArtifacts(ctx context.Context, thread event.ThreadID) ([]contract.ArtifactRef, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	var rows []artifactRow
	err = g.Where("sha256 IN (SELECT sha256 FROM artifact_refs WHERE thread_id = ?)", string(thread)).Order("sha256").Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list artifacts of thread %s: %w", thread, s.db.Explain(err))
	}
	refs := make([]contract.ArtifactRef, len(rows))
	for i, a := range rows {
		refs[i] = contract.ArtifactRef{SHA256: a.SHA256, SizeBytes: a.Size, MediaType: a.MediaType, Name: a.Name}
	}
	return refs, nil
}

// cleanName keeps what can be shown of the last part of a path.
func cleanName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	for len(name) > maxNameBytes {
		runes := []rune(name)
		name = string(runes[:len(runes)*maxNameBytes/len(name)])
	}
	return name
}

// artifactFiles is the folder of content-addressed files.
//
//	ab/abcdef…  content, complete and immutable
//	tmp/        content on its way
//	lock        held for reading while a file is put in place, exclusively while files are removed
type artifactFiles struct {
	dir      string
	maxBytes int64
}

func (a artifactFiles) path(digest string) string { return filepath.Join(a.dir, digest[:2], digest) }
func (a artifactFiles) tmp() string               { return filepath.Join(a.dir, "tmp") }
func (a artifactFiles) lock() string              { return filepath.Join(a.dir, "lock") }

// put writes content beside its place and moves it there. It does not wait for the disk; the writer does before it commits
// the artifact's row. The time is the file's own, set anew whenever its content is put again.
func (a artifactFiles) put(ctx context.Context, r io.Reader) (digest string, size int64, used time.Time, err error) {
	if err := os.MkdirAll(a.tmp(), 0o700); err != nil {
		return "", 0, used, err
	}
	f, err := os.CreateTemp(a.tmp(), "put-")
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
	size, err = io.Copy(io.MultiWriter(f, h), io.LimitReader(contextReader{ctx, r}, a.maxBytes+1))
	if err == nil && size > a.maxBytes {
		err = fmt.Errorf("it has more than %d bytes, which is the limit", a.maxBytes)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, used, err
	}
	crashpoint.At(crashpoint.ArtifactWritten, "")
	digest = hex.EncodeToString(h.Sum(nil))
	err = flock.While(ctx, a.lock(), false, func() error {
		path := a.path(digest)
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

// has tells whether the content is there, and whole: what comes in again is a chance to replace what a disk has damaged.
func (a artifactFiles) has(ctx context.Context, digest string, size int64) bool {
	info, err := os.Stat(a.path(digest))
	if err != nil || !info.Mode().IsRegular() || info.Size() != size {
		return false
	}
	r, err := a.open(digest)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, contextReader{ctx, r})
	return errors.Join(err, r.Close()) == nil
}

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

// sync makes the files of a batch survive the end of the machine.
func (a artifactFiles) sync(entries []entry) error {
	folders := map[string]bool{}
	for _, e := range entries {
		if e.artifact == nil {
			continue
		}
		path := a.path(e.artifact.SHA256)
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
		return nil // removed by hand; whoever reads it is told
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (a artifactFiles) open(digest string) (io.ReadCloser, error) {
	if !isDigest(digest) { // also keeps paths out
		return nil, &NotFoundError{What: "artifact", ID: digest}
	}
	path := a.path(digest)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{What: "artifact", ID: digest}
	}
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

// verifiedReader returns a [*CorruptError] where the content ends and is not what its digest says.
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

// unused is an artifact whose row is gone. Its file goes too, unless it was put again since.
type unused struct {
	SHA256 string `gorm:"column:sha256"`
	Size   int64
	UsedAt int64
}

// remove removes the files of artifacts; the caller holds the lock exclusively.
func (a artifactFiles) remove(list []unused) (n int, bytes int64, err error) {
	var errs []error
	for _, u := range list {
		path := a.path(u.SHA256)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if info.ModTime().UnixNano() > u.UsedAt {
				continue // its new row is on the way
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

// old returns the digests of all files in place that are older than cutoff, and removes older temporary ones.
func (a artifactFiles) old(cutoff time.Time) ([]unused, error) {
	var list []unused
	err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
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
		if isDigest(d.Name()) && path == a.path(d.Name()) {
			list = append(list, unused{SHA256: d.Name(), Size: info.Size(), UsedAt: info.ModTime().UnixNano()})
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
