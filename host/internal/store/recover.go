package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/event"
	"gorm.io/gorm"
)

// Recover stores a new thread, id, that begins with copies of the events of a damaged thread up to through; all other tables
// are derived from them again. tail returns the events that follow; it gets the events needed to resume the thread, as
// [Store.EffectiveEvents] yields them. Either all of it is stored or nothing. The damaged thread is not changed.
func (s *Store) Recover(ctx context.Context, from event.ThreadID, through uint64, id event.ThreadID,
	tail func(effective iter.Seq2[event.Event, error]) ([]event.Event, error)) error {
	if err := id.Check(); err != nil {
		return fmt.Errorf("recover thread %s: %w", from, err)
	}
	err := s.db.ChangeThread(ctx, id, func(tx *gorm.DB) error {
		if err := mustNotExist(tx, id); err != nil {
			return err
		}
		w := &group{thread: string(id), run: s.writer.run.ID}
		if err := w.copyEvents(tx, reader{s.db.DB, tx, from}, through); err != nil {
			return err
		}
		evs, err := tail(reader{s.db.DB, tx, id}.effective(through))
		if err != nil || len(evs) == 0 {
			return err
		}
		if w.recs, err = newRecords(evs); err != nil {
			return err
		}
		return w.store(tx)
	})
	if err != nil {
		return fmt.Errorf("recover thread %s: %w", from, err)
	}
	return nil
}

// mustNotExist returns an [*ExistsError] if the thread exists.
func mustNotExist(tx *gorm.DB, id event.ThreadID) error {
	var n int64
	if err := tx.Model(&threadRow{}).Where("id = ?", string(id)).Count(&n).Error; err != nil {
		return err
	}
	if n > 0 {
		return &ExistsError{Thread: id}
	}
	return nil
}

// copyEvents copies the events of a thread up to through, page by page and byte for byte.
func (g *group) copyEvents(tx *gorm.DB, from reader, through uint64) error {
	for at := (span{0, through}); at.after < at.upto; {
		rows, _, readErr := from.page(at)
		g.recs = nil
		for _, r := range rows {
			if err := r.verify(at.after + 1); err != nil {
				return from.damaged(at.after, err)
			}
			at.after = r.Seq
			r.ThreadID = g.thread
			rec := record{eventRow: r}
			rec.Sum = rec.checksum() // events of older versions have none
			e, err := r.event()
			if _, newer := errors.AsType[*DecodeError](err); err != nil && !newer {
				return err
			}
			rec.derive(e)
			g.recs = append(g.recs, &rec)
		}
		switch {
		case readErr != nil:
			return from.failed(at.after, readErr)
		case len(rows) == 0:
			return from.damaged(at.after, missing(at.after+1))
		}
		if err := g.store(tx); err != nil {
			return err
		}
	}
	return nil
}
