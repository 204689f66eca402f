package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/event"
	"gorm.io/gorm"
)

// Recover stores a thread that begins with the first events of a damaged one, up to a number: copies, with what is derived from
// them made anew. tail is what it has beyond them; it is given what going on with the thread takes, as [Store.EffectiveEvents] yields it.
// All of it is stored, or nothing. The damaged thread stays as it is.
func (s *Store) Recover(ctx context.Context, from event.ThreadID, through uint64, id event.ThreadID,
	tail func(standing iter.Seq2[event.Event, error]) ([]event.Event, error)) error {
	if err := id.Check(); err != nil {
		return fmt.Errorf("recover thread %s: %w", from, err)
	}
	err := s.sink.do(ctx, id, func(tx *gorm.DB) error {
		var n int64
		if err := tx.Model(&threadRow{}).Where("id = ?", string(id)).Count(&n).Error; err != nil {
			return err
		}
		if n > 0 {
			return &ExistsError{Thread: id}
		}
		if err := s.copyWhole(tx, from, through, id); err != nil {
			return err
		}
		evs, err := tail(s.standing(tx, id, through))
		if err != nil {
			return err
		}
		g := s.groupOf(id)
		for _, e := range evs {
			rec, err := newRecord(e)
			if err != nil {
				return err
			}
			g.recs = append(g.recs, &rec)
		}
		if len(g.recs) == 0 {
			return nil
		}
		return g.store(tx)
	})
	if err != nil {
		return fmt.Errorf("recover thread %s: %w", from, err)
	}
	return nil
}

func (s *Store) groupOf(id event.ThreadID) *group {
	return &group{thread: string(id), run: s.writer.run.ID}
}

// copyWhole copies events page by page, byte for byte.
func (s *Store) copyWhole(tx *gorm.DB, from event.ThreadID, through uint64, id event.ThreadID) error {
	for at := (span{0, through}); at.after < at.upto; {
		rows, _, readErr := eventPage(tx, from, at)
		g := s.groupOf(id)
		for _, r := range rows {
			if err := r.whole(at.after + 1); err != nil {
				return s.damaged(tx, from, at.after, err)
			}
			at.after = r.Seq
			r.ThreadID = string(id)
			rec := record{eventRow: r}
			rec.Sum = rec.checksum() // where it had none
			e, err := r.event()
			if _, newer := errors.AsType[*DecodeError](err); err != nil && !newer {
				return err
			}
			rec.derive(e)
			g.recs = append(g.recs, &rec)
		}
		switch {
		case readErr != nil:
			return s.unread(tx, from, at.after, readErr)
		case len(rows) == 0:
			return s.damaged(tx, from, at.after, missing(at.after+1))
		}
		if err := g.store(tx); err != nil {
			return err
		}
	}
	return nil
}
