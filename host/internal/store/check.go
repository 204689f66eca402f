package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
)

// Integrity is what was found of a thread.
type Integrity struct {
	Thread event.ThreadID
	Events int          // number of intact events
	Newer  int          // number of events among them that only a newer version can decode
	Damage *DamageError // nil: the log is intact
	// Artifacts has a [*CorruptError] or [*NotFoundError] for each damaged artifact that the thread refers to.
	Artifacts []error
}

// Intact tells whether everything is there as it was written.
func (c Integrity) Intact() bool { return c.Damage == nil && len(c.Artifacts) == 0 }

// Check reads all events of a thread and the artifacts that it refers to.
func (s *Store) Check(ctx context.Context, thread event.ThreadID) (Integrity, error) {
	c := Integrity{Thread: thread}
	for _, err := range s.Events(ctx, thread, 0) {
		if _, newer := errors.AsType[*DecodeError](err); newer {
			c.Newer++
			err = nil
		}
		if d, damaged := errors.AsType[*DamageError](err); damaged {
			c.Damage = d
			break
		}
		if err != nil {
			return c, err
		}
		c.Events++
	}
	refs, err := s.ThreadArtifacts(ctx, thread)
	if err != nil {
		return c, err
	}
	for _, ref := range refs {
		r, err := s.Artifact(ctx, ref.SHA256)
		if err == nil {
			_, err = io.Copy(io.Discard, artifacts.NewReader(ctx, r))
			err = errors.Join(err, r.Close())
		}
		_, corrupt := errors.AsType[*CorruptError](err)
		_, missing := errors.AsType[*NotFoundError](err)
		switch {
		case corrupt || missing:
			c.Artifacts = append(c.Artifacts, err)
		case err != nil:
			return c, err
		}
	}
	return c, nil
}

// IncompleteThreads finds threads of whose log rows are missing, which takes no look into an event: those whose number of events, or whose
// last one, is not what their row says.
func (s *Store) IncompleteThreads(ctx context.Context) ([]event.ThreadID, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	var ids []event.ThreadID
	err = g.Raw(`SELECT t.id FROM threads t LEFT JOIN (SELECT thread_id, COUNT(*) AS n, MAX(seq) AS last FROM events GROUP BY thread_id) e
		ON e.thread_id = t.id WHERE COALESCE(e.n, 0) <> t.seq OR COALESCE(e.last, 0) <> t.seq ORDER BY t.updated_at DESC, t.id`).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("count events: %w", s.db.Explain(err))
	}
	return ids, nil
}

// Verify returns the problems that the database finds in itself; a server finds none, since its operators verify it. With full it
// compares indexes with their tables, which takes as long as reading the whole database several times.
func (s *Store) Verify(ctx context.Context, full bool) ([]string, error) {
	if s.db.refuseReads {
		return nil, ErrReadsRefused
	}
	return s.db.Verify(ctx, full)
}

// Reindex rebuilds the indexes of the database from their tables.
func (s *Store) Reindex(ctx context.Context) error { return s.db.Change(ctx, s.db.Reindex) }
