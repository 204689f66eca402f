package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Fork stores a new thread that begins with copies of another thread's events and of the rows derived from them. tail is the rest
// of its events; the first one is an [event.ThreadForked] that says what to copy. Either all of it is stored or nothing.
func (s *Store) Fork(ctx context.Context, tail []event.Event) error {
	forked, err := checkFork(tail)
	if err != nil {
		return err
	}
	id := tail[0].Thread
	g := &group{thread: string(id), run: s.writer.run.ID}
	recs, err := newRecords(tail)
	if err != nil {
		return err
	}
	err = s.db.ChangeThread(ctx, id, func(tx *gorm.DB) error {
		g.recs = recs // an earlier try may have consumed them
		if err := copyThread(tx, forked, string(id), s.writer.run.ID); err != nil {
			return err
		}
		crashpoint.At(crashpoint.RowsWritten, "copies")
		return g.store(tx)
	})
	if err != nil {
		return fmt.Errorf("fork thread %s: %w", forked.From, err)
	}
	return nil
}

// checkFork checks the events of a fork that are not copies.
func checkFork(tail []event.Event) (forked event.ThreadForked, err error) {
	if len(tail) == 0 {
		return forked, errors.New("fork: nothing says what of")
	}
	forked, ok := tail[0].Body.(event.ThreadForked)
	if !ok || tail[0].Seq != forked.Through+1 {
		return forked, fmt.Errorf("fork: event %d (%s) does not say what it follows", tail[0].Seq, tail[0].Body.Kind())
	}
	id := tail[0].Thread
	if err := id.Check(); err != nil {
		return forked, fmt.Errorf("fork: %w", err)
	}
	for i, e := range tail {
		if want := forked.Through + 1 + uint64(i); e.Thread != id || e.Seq != want {
			return forked, fmt.Errorf("fork: %w", &OrderError{Thread: e.Thread, Seq: e.Seq, Want: want})
		}
	}
	return forked, nil
}

// ForkTo is like [Store.Fork], but stores the new thread in another store.
func (s *Store) ForkTo(ctx context.Context, to *Store, tail []event.Event) error {
	forked, err := checkFork(tail)
	if err != nil {
		return err
	}
	return transfer(ctx, s, to, forked.From, tail[0].Thread, func(yield func(event.Event, error) bool) {
		for e, err := range s.Events(ctx, forked.From, 0) {
			if err == nil && e.Seq > forked.Through {
				break
			}
			if !yield(e, err) {
				return
			}
		}
		for _, e := range tail {
			if !yield(e, nil) {
				return
			}
		}
	})
}

// CopyTo stores a copy of a thread, with the same identity, in another store.
func (s *Store) CopyTo(ctx context.Context, to *Store, id event.ThreadID) error {
	return transfer(ctx, s, to, id, id, s.Events(ctx, id, 0))
}

// transfer stores events as those of a thread in another store, with the artifacts to which the thread refers from which they are.
func transfer(ctx context.Context, s, to *Store, from, id event.ThreadID, events iter.Seq2[event.Event, error]) error {
	refs, err := s.ThreadArtifacts(ctx, from)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		content, err := s.Artifact(ctx, ref.SHA256)
		if err != nil {
			return err
		}
		_, err = to.PutArtifact(ctx, ref.MediaType, ref.Name, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	out, in := io.Pipe()
	written := make(chan struct{})
	go func() { // owned by this function: ends with the pipe, and is waited for
		defer close(written)
		_ = in.CloseWithError(writeLines(in, id, events)) // always nil
	}()
	_, err = to.Import(ctx, out)
	_ = out.CloseWithError(err) // ends the writer if the import has failed; always nil
	<-written
	return err
}

// copyThread copies the events up to f.Through, and the derived rows as they were then: turns and items that ended later are
// copied as running.
func copyThread(tx *gorm.DB, f event.ThreadForked, id, run string) error {
	var found []threadRow
	if err := tx.Select("id", "seq").Where("id IN ?", []string{id, string(f.From)}).Find(&found).Error; err != nil {
		return err
	}
	source := false
	for _, r := range found {
		if r.ID == id {
			return &ExistsError{Thread: event.ThreadID(id)}
		}
		source = r.Seq >= f.Through
	}
	if !source {
		return &NotFoundError{What: "thread", ID: string(f.From)}
	}
	from, upto := string(f.From), f.Through
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{"INSERT INTO threads (id, seq, run_id, created_at, updated_at) VALUES (?, ?, ?, 0, 0)", []any{id, upto, run}},
		{`INSERT INTO events (thread_id, seq, turn_id, time, kind, body, sum)
			SELECT ?, seq, turn_id, time, kind, body, sum FROM events WHERE thread_id = ? AND seq <= ? ORDER BY seq`, []any{id, from, upto}},
		{`INSERT INTO turns (thread_id, id, first_seq, last_seq, status, started_at, ended_at)
			SELECT ?, id, first_seq, CASE WHEN last_seq <= ? THEN last_seq ELSE 0 END,
				CASE WHEN last_seq > 0 AND last_seq <= ? THEN status ELSE ? END, started_at, CASE WHEN last_seq <= ? THEN ended_at ELSE 0 END
			FROM turns WHERE thread_id = ? AND first_seq <= ?`, []any{id, upto, upto, StatusRunning, upto, from, upto}},
		{`INSERT INTO items (thread_id, id, turn_id, call_id, type, status, first_seq, last_seq)
			SELECT ?, id, turn_id, call_id, type, CASE WHEN last_seq <= ? THEN status ELSE ? END, first_seq,
				CASE WHEN last_seq <= ? THEN last_seq ELSE first_seq END
			FROM items WHERE thread_id = ? AND first_seq <= ?`, []any{id, upto, string(event.StatusInProgress), upto, from, upto}},
		{`INSERT INTO passages (thread_id, seq, turn_id, role, text)
			SELECT ?, seq, turn_id, role, text FROM passages WHERE thread_id = ? AND seq <= ? ORDER BY seq`, []any{id, from, upto}},
		{`INSERT INTO reverts (thread_id, seq, from_seq, through_seq)
			SELECT ?, seq, from_seq, through_seq FROM reverts WHERE thread_id = ? AND seq <= ?`, []any{id, from, upto}},
		{"INSERT INTO read_states (thread_id, seq, marks) VALUES (?, ?, 0)", []any{id, upto}}, // who forks a thread has read it
		// Which event refers to an artifact is not recorded, so the fork may keep artifacts that it doesn't need.
		{"INSERT INTO artifact_refs (sha256, thread_id) SELECT sha256, ? FROM artifact_refs WHERE thread_id = ?", []any{id, from}},
	} {
		if err := database.Exec(tx, q.sql, q.args...); err != nil {
			return err
		}
	}
	return updateTurnColumns(tx, id)
}
