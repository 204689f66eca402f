package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"github.com/gantry-agent/gantry/host/internal/store/sink"
	"github.com/gantry-agent/gantry/sdk/contract"
)

const (
	// DefaultMaxArtifactBytes limits the size of one artifact. A plugin that streams more gets an error.
	DefaultMaxArtifactBytes = 1 << 30

	// maxNameBytes limits the name of an artifact, which is only displayed.
	maxNameBytes = 255
)

// CorruptError says that an artifact is damaged; see package artifacts.
type CorruptError = artifacts.CorruptError

// PutArtifact stores content under its SHA-256 and returns its reference. Equal content is stored once. It is kept for a day, and
// as long as a stored thread refers to it.
func (s *Store) PutArtifact(ctx context.Context, mediaType, name string, r io.Reader) (contract.ArtifactRef, error) {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	ref := contract.ArtifactRef{MediaType: mediaType, Name: cleanName(name)}
	digest, size, used, err := s.files.Put(ctx, r)
	if err != nil {
		return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", ref.Name, err)
	}
	ref.SHA256, ref.SizeBytes = digest, size
	row := &artifactRow{
		SHA256: digest, Size: size, MediaType: mediaType, Name: ref.Name, CreatedAt: time.Now().UnixNano(),
		UsedAt: used.UnixNano(),
	}
	// The queue keeps the order: events that refer to the artifact are written after its row.
	if err := s.db.sink.Deliver(ctx, sink.Entry{Value: row}); err != nil {
		return contract.ArtifactRef{}, fmt.Errorf("store artifact %q: %w", ref.Name, err)
	}
	crashpoint.At(crashpoint.ArtifactQueued, "")
	return ref, nil
}

// Artifact opens stored content, which is verified against the digest: up to 8 MiB before Artifact returns, larger content by the
// time that the reader would return io.EOF. Errors include [*NotFoundError] and [*CorruptError].
func (s *Store) Artifact(_ context.Context, digest string) (io.ReadCloser, error) {
	r, err := s.files.Open(digest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{What: "artifact", ID: digest}
	}
	return r, err
}

// ThreadArtifacts lists the artifacts that a thread refers to.
func (s *Store) ThreadArtifacts(ctx context.Context, thread event.ThreadID) ([]contract.ArtifactRef, error) {
	g, err := s.db.Read(ctx)
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

// cleanName returns the printable characters of the last element of a path, up to maxNameBytes.
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
