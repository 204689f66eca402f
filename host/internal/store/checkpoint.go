package store

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// LastCompaction is the number of the event that compacted a thread's history last; 0: none did. Going on with the thread
// takes no event before it. The items tell where to look, so that the log itself is not searched.
func (s *Store) LastCompaction(ctx context.Context, thread event.ThreadID) (uint64, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return 0, err
	}
	var seq uint64
	err = g.Raw(`SELECT COALESCE(MAX(e.seq), 0) FROM events e, (
			SELECT first_seq, last_seq FROM items WHERE thread_id = ? AND type = ? AND status = ? ORDER BY first_seq DESC LIMIT 1) i
		WHERE e.thread_id = ? AND e.seq BETWEEN i.first_seq AND i.last_seq AND e.kind = ?`,
		string(thread), event.ItemCompaction, event.StatusCompleted, string(thread), event.HistoryCompacted{}.Kind()).Scan(&seq).Error
	if err != nil {
		return 0, fmt.Errorf("find the last compaction of thread %s: %w", thread, s.db.Explain(err))
	}
	return seq, nil
}
