package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// EffectiveEvents yields the events needed to resume a thread as of event through (0: its last event). These are the events
// that no revert has taken back, starting with the newest compaction among them. Errors are those of [Store.Events]; damage of
// other events does not matter.
func (s *Store) EffectiveEvents(ctx context.Context, thread event.ThreadID, through uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r, err := s.reader(ctx, thread)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		if through == 0 {
			l, _, err := r.length()
			if err != nil {
				yield(event.Event{}, r.failed(0, err))
				return
			}
			if err := l.short(l.log); err != nil {
				yield(event.Event{}, r.damaged(l.log, err))
				return
			}
			through = l.row
		}
		r.effective(through)(yield)
	}
}

// effective implements [Store.EffectiveEvents].
func (r reader) effective(through uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		spans, err := r.effectiveSpans(through)
		if err != nil {
			yield(event.Event{}, r.failed(0, err))
			return
		}
		last := uint64(0)
		for _, span := range spans {
			for e, err := range r.between(span) {
				// The table of reverts determines the spans. If a row is missing there, events that were taken back would
				// become effective again.
				if b, ok := e.Body.(event.ThreadReverted); ok && last > 0 && b.Through != last {
					e, err = event.Event{}, r.damaged(last, fmt.Errorf("the record of what event %d reverted is missing", e.Seq))
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

func (r reader) effectiveSpans(through uint64) ([]span, error) {
	var reverts []revertRow
	if err := r.g.Where("thread_id = ? AND seq <= ?", string(r.thread), through).Order("seq").Find(&reverts).Error; err != nil {
		return nil, err
	}
	spans := notReverted(reverts, through)
	seq, err := r.lastCompaction(spans)
	if err != nil {
		return nil, err
	}
	return since(spans, seq), nil
}

// notReverted returns the spans up to through that the reverts leave, in order. A revert that was itself taken back has no
// effect, since the revert that did so took back the same events.
func notReverted(reverts []revertRow, through uint64) []span {
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

// since returns the part of spans that begins with the event seq.
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

// lastCompaction returns the number of the newest event in spans that compacted the thread's history, or 0. Earlier events are
// not needed to resume the thread. The items say where to look, so that the whole log need not be searched.
func (r reader) lastCompaction(spans []span) (seq uint64, err error) {
	item, found, err := r.lastCompactionItem(spans)
	if err != nil || !found {
		return 0, err
	}
	err = r.g.Raw("SELECT COALESCE(MAX(seq), 0) FROM events WHERE thread_id = ? AND seq BETWEEN ? AND ? AND kind = ?",
		string(r.thread), item.FirstSeq, item.LastSeq, event.HistoryCompacted{}.Kind()).Scan(&seq).Error
	return seq, err
}

func (r reader) lastCompactionItem(spans []span) (item itemRow, found bool, err error) {
	rows, err := r.g.Raw("SELECT first_seq, last_seq FROM items WHERE thread_id = ? AND type = ? AND status = ? ORDER BY first_seq DESC",
		string(r.thread), event.ItemCompaction, event.StatusCompleted).Rows()
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
