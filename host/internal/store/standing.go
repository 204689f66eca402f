package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"gorm.io/gorm"
)

// span is a run of events: those behind After, up to Upto.
type span struct{ after, upto uint64 }

// EffectiveEvents yields what going on with a thread takes, as it was when event through was its last one (0: as it is): the events
// that count, which no revert has taken back, from the newest compaction among them on. Errors come as those of [Store.Events]:
// damage of what does not count does not matter.
func (s *Store) EffectiveEvents(ctx context.Context, thread event.ThreadID, through uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		g, err := s.reading(ctx)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		if through == 0 {
			l, _, err := lengthOf(g, thread)
			if err != nil {
				yield(event.Event{}, s.unread(g, thread, 0, err))
				return
			}
			if err := l.short(l.log); err != nil {
				yield(event.Event{}, s.damaged(g, thread, l.log, err))
				return
			}
			through = l.row
		}
		s.standing(g, thread, through)(yield)
	}
}

// standing is EffectiveEvents on a connection.
func (s *Store) standing(g *gorm.DB, thread event.ThreadID, through uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		spans, err := standingSpans(g, thread, through)
		if err != nil {
			yield(event.Event{}, s.unread(g, thread, 0, err))
			return
		}
		last := uint64(0)
		for _, span := range spans {
			for e, err := range s.between(g, thread, span) {
				// The rows of reverts say which events count. One that is gone would bring back what was taken back.
				if r, ok := e.Body.(event.ThreadReverted); ok && last > 0 && r.Through != last {
					e, err = event.Event{}, s.damaged(g, thread, last, fmt.Errorf("what its event %d took back is not noted", e.Seq))
				}
				if !yield(e, err) {
					return
				}
				if _, newer := errors.AsType[*DecodeError](err); err != nil && !newer {
					return
				}
				last = e.Seq
			}
		}
	}
}

// standingSpans are the events that count, from the newest compaction among them on.
func standingSpans(g *gorm.DB, thread event.ThreadID, through uint64) ([]span, error) {
	var reverts []revertRow
	if err := g.Where("thread_id = ? AND seq <= ?", string(thread), through).Order("seq").Find(&reverts).Error; err != nil {
		return nil, err
	}
	spans := standing(reverts, through)
	seq, err := lastCompaction(g, thread, spans)
	if err != nil {
		return nil, err
	}
	return since(spans, seq), nil
}

// standing is what is left of the events up to through, in order. A revert that was itself taken back took nothing that
// still counted.
func standing(reverts []revertRow, through uint64) []span {
	var out []span
	end := through
	for _, r := range slices.Backward(reverts) {
		if r.Seq > end {
			continue
		}
		out = append(out, span{r.Seq - 1, end})
		end = r.ThroughSeq
	}
	if end > 0 {
		out = append(out, span{0, end})
	}
	slices.Reverse(out)
	return out
}

// since is what of spans begins at a number.
func since(spans []span, seq uint64) []span {
	var out []span
	for _, s := range spans {
		if seq > 0 {
			s.after = max(s.after, seq-1)
		}
		if s.after < s.upto {
			out = append(out, s)
		}
	}
	return out
}

func contains(spans []span, seq uint64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.after < seq && seq <= s.upto })
}

// lastCompaction is the number of the newest event of spans that compacted the thread's history; 0: none did. Going on with the
// thread takes no event before it. The items tell where to look, so that the log itself is not searched.
func lastCompaction(g *gorm.DB, thread event.ThreadID, spans []span) (seq uint64, err error) {
	item, found, err := lastCompactionItem(g, thread, spans)
	if err != nil || !found {
		return 0, err
	}
	err = g.Raw("SELECT COALESCE(MAX(seq), 0) FROM events WHERE thread_id = ? AND seq BETWEEN ? AND ? AND kind = ?",
		string(thread), item.FirstSeq, item.LastSeq, event.HistoryCompacted{}.Kind()).Scan(&seq).Error
	return seq, err
}

func lastCompactionItem(g *gorm.DB, thread event.ThreadID, spans []span) (item itemRow, found bool, err error) {
	rows, err := g.Raw("SELECT first_seq, last_seq FROM items WHERE thread_id = ? AND type = ? AND status = ? ORDER BY first_seq DESC",
		string(thread), event.ItemCompaction, event.StatusCompleted).Rows()
	if err != nil {
		return item, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(&item.FirstSeq, &item.LastSeq); err != nil {
			return item, false, err
		}
		if contains(spans, item.FirstSeq) && contains(spans, item.LastSeq) {
			return item, true, nil
		}
	}
	return item, false, rows.Err()
}

// everything behind a number.
func behind(seq uint64) span { return span{seq, math.MaxInt64} }
