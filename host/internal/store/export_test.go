package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/sdk/contract"
	"gorm.io/gorm"
)

// Edge is a statement that changes the database, for [Store.ExecOnWriter].
const Edge = "INSERT INTO agent_edges (child, parent, status, created_at, updated_at, payload) VALUES ('kept', 'a', '', 1, 1, '')"

// ExecOnWriter runs a statement on the connection that writes.
func (s *Store) ExecOnWriter(ctx context.Context, statement string) error {
	return s.db.Change(ctx, func(tx *gorm.DB) error { return tx.Exec(statement).Error })
}

// AgeArtifact makes an artifact older.
func (s *Store) AgeArtifact(ctx context.Context, digest string, by time.Duration) error {
	return s.db.Change(ctx, func(tx *gorm.DB) error {
		return database.Exec(tx, "UPDATE artifacts SET used_at = used_at - ? WHERE sha256 = ?", int64(by), digest)
	})
}

// ArtifactPath returns the path of an artifact's file.
func (s *Store) ArtifactPath(digest string) string { return s.files.Path(digest) }

// Digests and Preview export the functions of the same names.
var (
	Digests = digests
	Preview = preview
)

// ExecPastTheQueue executes a statement on the connection for writing, even while the store is degraded.
func (s *Store) ExecPastTheQueue(statement string) error {
	return s.db.Write(context.Background(), database.Normal, func(tx *gorm.DB) error { return tx.Exec(statement).Error })
}

// Hold runs f while it blocks all other writers.
func (s *Store) Hold(ctx context.Context, f func()) error {
	return s.db.Write(ctx, database.Normal, func(*gorm.DB) error { f(); return nil })
}

// Committed waits until everything is committed, but unlike Barrier not until it survives a crash of the machine.
func (s *Store) Committed(ctx context.Context) error { return s.db.sink.Await(ctx, "", 0, false) }

// WriteFirstSchema writes a thread with the first version of the schema.
func WriteFirstSchema(ctx context.Context, path string, events []event.Event) error {
	what := Database{}.Config(path)
	what.Migrations = threadMigrations()[:1]
	db, err := database.Open(ctx, what)
	if err != nil {
		return err
	}
	err = db.Write(ctx, database.Normal, func(tx *gorm.DB) error {
		g := &group{thread: string(events[0].Thread), run: "run"}
		for _, e := range events {
			rec, err := newRecord(e)
			if err != nil {
				return err
			}
			rec.passage = nil
			delete(rec.set, "parent") // threads had no parents then
			g.recs = append(g.recs, &rec)
		}
		// Events had no checksums then.
		if err := tx.Exec("ALTER TABLE events ADD COLUMN sum INTEGER NOT NULL DEFAULT 0").Error; err != nil {
			return err
		}
		if err := g.store(tx); err != nil {
			return err
		}
		return tx.Exec("ALTER TABLE events DROP COLUMN sum").Error
	})
	return errors.Join(err, db.Close())
}

// Run is one host process that has written to the store.
type Run struct {
	ID          string
	PID         int
	HostVersion string
	Started     time.Time
	Ended       time.Time // zero: it runs, or it was killed
}

// Runs lists the host processes that have written, the latest first. Limit 0: all.
func (s *Store) Runs(ctx context.Context, limit int) ([]Run, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	q := g.Order("started_at DESC, id DESC")
	if limit > 0 {
		q = q.Limit(limit)
	}
	var rows []runRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list runs: %w", s.db.Explain(err))
	}
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = Run{
			ID: r.ID, PID: r.PID, HostVersion: r.HostVersion, Started: database.Time(r.StartedAt), Ended: database.Time(r.EndedAt),
		}
	}
	return runs, nil
}

// Items lists the items of a turn, or of the whole thread when turn is empty, as they were last and in the order in which
// they appeared. Those of turns that were taken back are among them.
func (s *Store) Items(ctx context.Context, thread event.ThreadID, turn event.TurnID) ([]event.Item, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	q := g.Table("items").Select("events.*").
		Joins("JOIN events ON events.thread_id = items.thread_id AND events.seq = items.last_seq").
		Where("items.thread_id = ?", string(thread)).Order("items.first_seq, items.id")
	if turn != "" {
		q = q.Where("items.turn_id = ?", string(turn))
	}
	var rows []eventRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list items: %w", s.db.Explain(err))
	}
	items := make([]event.Item, 0, len(rows))
	var errs []error
	for _, r := range rows {
		e, err := r.event()
		switch b := e.Body.(type) {
		case event.ItemStarted:
			items = append(items, b.Item)
		case event.ItemCompleted:
			items = append(items, b.Item)
		default:
			errs = append(errs, err)
		}
	}
	return items, errors.Join(errs...)
}

// ArtifactInfo returns what is known of an artifact.
func (s *Store) ArtifactInfo(ctx context.Context, digest string) (contract.ArtifactRef, error) {
	g, err := s.db.Read(ctx)
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
