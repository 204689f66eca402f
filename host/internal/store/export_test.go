package store

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// ExecOnWriter runs a statement on the connection that writes.
func (s *Store) ExecOnWriter(ctx context.Context, statement string) error {
	return s.sink.do(ctx, "", func(tx *gorm.DB) error { return tx.Exec(statement).Error })
}

// AgeArtifact makes an artifact look as if it had been put long ago.
func (s *Store) AgeArtifact(ctx context.Context, digest string, by time.Duration) error {
	return s.sink.do(ctx, "", func(tx *gorm.DB) error {
		return database.Exec(tx, "UPDATE artifacts SET used_at = used_at - ? WHERE sha256 = ?", int64(by), digest)
	})
}

// ArtifactPath returns where an artifact's file is.
func (s *Store) ArtifactPath(digest string) string { return s.files.path(digest) }

// Digests and Preview are what is derived from text.
var (
	Digests = digests
	Preview = preview
)

// ExecPastTheQueue runs a statement on the connection that writes, also while the store is degraded.
func (s *Store) ExecPastTheQueue(statement string) error {
	return s.db.Write(context.Background(), database.Normal, func(tx *gorm.DB) error { return tx.Exec(statement).Error })
}

// Hold runs f while nobody else writes.
func (s *Store) Hold(ctx context.Context, f func()) error {
	return s.db.Write(ctx, database.Normal, func(*gorm.DB) error { f(); return nil })
}

// Committed waits for a commit that survives the end of the process, and not the end of the machine as Barrier does.
func (s *Store) Committed(ctx context.Context) error { return s.sink.await(ctx, "", 0, false) }

// WriteFirstSchema writes a thread as the first version of the schema kept it.
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
