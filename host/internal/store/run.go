package store

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

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
	g, err := s.reading(ctx)
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

// keepRuns is how long a run is listed that no thread was last written by.
const keepRuns = 30 * 24 * time.Hour

func deleteOldRuns(tx *gorm.DB) error {
	return database.Exec(tx, "DELETE FROM runs WHERE started_at < ? AND id NOT IN (SELECT run_id FROM threads)",
		time.Now().Add(-keepRuns).UnixNano())
}
