package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/sink"
	"gorm.io/gorm"
)

// writer writes batches to the database. Only the sink's writing goroutine uses it.
type writer struct {
	db     *database.DB
	locks  database.Locks // of threads
	files  artifacts.Folder
	run    runRow
	inRuns bool // the run's row is committed
	// wrapCommit is called for every commit; tests use it to inject faults.
	wrapCommit func(commit func() error) error
}

// write commits one batch. An operation answers its own error; every other error is the store's.
func (w *writer) write(ctx context.Context, b sink.Batch) sink.Outcome {
	if op := b.Operation(); op != nil {
		op.Run(ctx, func(ctx context.Context, fn func(tx *gorm.DB) error) error {
			return w.wrapCommit(func() error { return w.db.Write(ctx, database.Full, fn) })
		})
		return sink.Outcome{}
	}
	var conflicts map[event.ThreadID]error
	for {
		var found map[event.ThreadID]error
		err := w.wrapCommit(func() error {
			if err := w.syncArtifacts(b); err != nil {
				return err
			}
			return w.db.WriteConcurrent(ctx, database.Durability(b.Sync), func(tx *gorm.DB) error {
				found = maps.Clone(conflicts) // discards what an earlier try has found
				return w.fill(tx, b, &found)
			})
		})
		if refused, ok := errors.AsType[*refusedError](err); ok {
			// A thread whose rows contradict each other must not keep the others from being stored: retry without it.
			if conflicts == nil {
				conflicts = map[event.ThreadID]error{}
			}
			conflicts[refused.conflict.Thread] = refused.conflict
			continue
		}
		if err == nil {
			w.inRuns = true
		}
		return sink.Outcome{Err: err, Synced: w.db.Durable(), Conflicts: found}
	}
}

// syncArtifacts makes the files of a batch survive a crash of the machine, as its rows will.
func (w *writer) syncArtifacts(b sink.Batch) error {
	var digests []string
	for _, e := range b.Entries {
		if row, ok := e.Value.(*artifactRow); ok {
			digests = append(digests, row.SHA256)
		}
	}
	return w.files.Sync(digests...)
}

// refusedError says that the rows of a thread violate a constraint of the database.
type refusedError struct{ conflict *ConflictError }

func (e *refusedError) Error() string { return e.conflict.Error() }

// fill is the transaction of a batch.
func (w *writer) fill(tx *gorm.DB, b sink.Batch, conflicts *map[event.ThreadID]error) error {
	if err := w.recordRun(tx, b); err != nil {
		return err
	}
	crashpoint.At(crashpoint.RowsWritten, "run")
	groups, order := map[string]*group{}, []*group{}
	for _, e := range b.Entries {
		switch v := e.Value.(type) {
		case *artifactRow:
			if err := putArtifactRow(tx, v); err != nil {
				return err
			}
			crashpoint.At(crashpoint.RowsWritten, "artifact")
		case *record:
			g := groups[v.ThreadID]
			if g == nil {
				g = &group{thread: v.ThreadID, run: w.run.ID, locks: w.locks}
				groups[v.ThreadID] = g
				order = append(order, g)
			}
			g.recs = append(g.recs, v)
		}
	}
	for _, g := range order {
		if (*conflicts)[event.ThreadID(g.thread)] != nil {
			continue
		}
		first := g.recs[0].Seq
		err := g.store(tx)
		if w.db.IsConstraint(err) {
			return &refusedError{&ConflictError{Thread: event.ThreadID(g.thread), Seq: first, Err: err}}
		}
		if conflict, ok := errors.AsType[*ConflictError](err); ok {
			if *conflicts == nil {
				*conflicts = map[event.ThreadID]error{}
			}
			(*conflicts)[conflict.Thread] = conflict
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recordRun keeps the row of this host process. A batch without entries, which is there to sync or to find out whether
// writing works, writes this row: without a changed page a commit does nothing.
func (w *writer) recordRun(tx *gorm.DB, b sink.Batch) error {
	if !w.inRuns {
		// The row may exist: a commit that reported an error may have happened.
		return database.Exec(tx, `INSERT INTO runs (id, pid, host_version, started_at, synced_at, ended_at) VALUES (?, ?, ?, ?, 0, 0)
			ON CONFLICT (id) DO NOTHING`, w.run.ID, w.run.PID, w.run.HostVersion, w.run.StartedAt)
	}
	if len(b.Entries) > 0 {
		return nil
	}
	return database.Exec(tx, "UPDATE runs SET synced_at = ? WHERE id = ?", time.Now().UnixNano(), w.run.ID)
}

// endRun records the end of the run. It is the last operation of a store.
func (w *writer) endRun(tx *gorm.DB) error {
	if !w.inRuns {
		return nil
	}
	return database.Exec(tx, "UPDATE runs SET ended_at = ? WHERE id = ?", time.Now().UnixNano(), w.run.ID)
}

// group is a sequence of events of one thread, to be written in one transaction.
type group struct {
	thread string
	run    string
	locks  database.Locks // nil: the thread need not be locked by this process
	recs   []*record
}

// store writes the events and the rows derived from them. If it returns a [*ConflictError], it has written nothing.
func (g *group) store(tx *gorm.DB) error {
	if err := g.claim(tx); err != nil || len(g.recs) == 0 {
		return err
	}
	crashpoint.At(crashpoint.RowsWritten, "thread")
	if err := g.insertEvents(tx); err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	crashpoint.At(crashpoint.RowsWritten, "events")
	if err := g.putTurns(tx); err != nil {
		return fmt.Errorf("store turns: %w", err)
	}
	crashpoint.At(crashpoint.RowsWritten, "turns")
	if err := g.putItems(tx); err != nil {
		return fmt.Errorf("store items: %w", err)
	}
	crashpoint.At(crashpoint.RowsWritten, "items")
	if err := g.putPassages(tx); err != nil {
		return fmt.Errorf("store passages: %w", err)
	}
	crashpoint.At(crashpoint.RowsWritten, "passages")
	if err := g.putRefs(tx); err != nil {
		return fmt.Errorf("store references to artifacts: %w", err)
	}
	crashpoint.At(crashpoint.RowsWritten, "references")
	if err := g.putReverts(tx); err != nil {
		return fmt.Errorf("store what was taken back: %w", err)
	}
	crashpoint.At(crashpoint.RowsWritten, "reverts")
	return nil
}

// claim advances the thread's row from the event before the group to the group's last one. The same statement checks that the row
// was at that event, which proves that no other process has written to the thread.
func (g *group) claim(tx *gorm.DB) error {
	moved, err := g.moveThread(tx)
	if err != nil || moved {
		return err
	}
	switch taken, err := g.takenOver(tx); {
	case err != nil:
		return err
	case taken:
		return &ConflictError{Thread: event.ThreadID(g.thread), Seq: g.recs[0].Seq, Err: ErrTakenOver}
	}
	var rows []threadRow
	if err := tx.Select("seq").Where("id = ?", g.thread).Find(&rows).Error; err != nil {
		return err
	}
	if len(rows) == 0 {
		if first := g.recs[0]; first.Seq != 1 {
			return &ConflictError{Thread: event.ThreadID(g.thread), Seq: first.Seq}
		}
		return g.insertThread(tx)
	}
	// A commit that reported an error may have happened. In that case the same events are stored, and must not be written again.
	stored := rows[0].Seq
	if err := g.skipStored(tx, stored); err != nil || len(g.recs) == 0 {
		return err
	}
	if g.recs[0].Seq != stored+1 {
		return &ConflictError{Thread: event.ThreadID(g.thread), Seq: g.recs[0].Seq, Stored: stored}
	}
	moved, err = g.moveThread(tx)
	if err == nil && !moved {
		err = fmt.Errorf("thread %s: its row does not move from event %d", g.thread, stored)
	}
	return err
}

// skipStored drops the records up to number stored. Their stored rows must be identical.
func (g *group) skipStored(tx *gorm.DB, stored uint64) error {
	n := 0
	for n < len(g.recs) && g.recs[n].Seq <= stored {
		n++
	}
	if n == 0 {
		return nil
	}
	first, last := g.recs[0], g.recs[n-1]
	var rows []eventRow
	err := tx.Where("thread_id = ? AND seq BETWEEN ? AND ?", g.thread, first.Seq, last.Seq).Order("seq").Find(&rows).Error
	if err != nil {
		return err
	}
	for i, r := range g.recs[:n] {
		same := i < len(rows)
		if same {
			row := rows[i]
			row.ID = 0
			same = row == r.eventRow
		}
		if !same {
			return &ConflictError{Thread: event.ThreadID(g.thread), Seq: r.Seq, Stored: stored}
		}
	}
	g.recs = g.recs[n:]
	return nil
}

// columns returns the columns of the thread's row that the group sets, each with its last value, and the preview.
func (g *group) columns() (set map[string]any, preview string) {
	set = map[string]any{}
	for _, r := range g.recs {
		for column, value := range r.set {
			set[column] = value
		}
		if preview == "" {
			preview = r.preview
		}
	}
	return set, preview
}

func (g *group) moveThread(tx *gorm.DB) (moved bool, err error) {
	first, last := g.recs[0], g.recs[len(g.recs)-1]
	set, preview := g.columns()
	var q strings.Builder
	q.WriteString("UPDATE threads SET seq = ?, run_id = ?")
	args := []any{last.Seq, g.run}
	for _, column := range threadColumns {
		if value, ok := set[column]; ok {
			q.WriteString(", " + column + " = ?")
			args = append(args, value)
		}
	}
	if preview != "" {
		q.WriteString(", preview = CASE WHEN preview = '' THEN ? ELSE preview END")
		args = append(args, preview)
	}
	q.WriteString(" WHERE id = ? AND seq = ?")
	args = append(args, g.thread, first.Seq-1)
	if condition, more := g.fence(); condition != "" {
		q.WriteString(" AND " + condition)
		args = append(args, more...)
	}
	n, err := database.Affected(tx, q.String(), args...)
	return n > 0, err
}

// fence returns an SQL condition that is true while this process holds the thread's lock. It is empty if the lock can't be lost, or
// if the thread is not locked.
func (g *group) fence() (condition string, args []any) {
	if g.locks == nil {
		return "", nil
	}
	return g.locks.Fence(g.thread)
}

// takenOver reports whether another process has locked the thread while this one could not reach the database.
func (g *group) takenOver(tx *gorm.DB) (bool, error) {
	condition, args := g.fence()
	if condition == "" {
		return false, nil
	}
	var mine bool
	err := tx.Raw("SELECT "+condition, args...).Row().Scan(&mine)
	return err == nil && !mine, err
}

// threadColumns are the derived columns in a fixed order, so that equal groups produce equal statements.
var threadColumns = [...]string{
	"created_at", "updated_at", "archived_at", "cwd", "model", "provider", "model_name", "source", "forked_from", "parent", "name", "status", "tokens",
	"git_sha", "git_branch", "git_origin",
}

func (g *group) insertThread(tx *gorm.DB) error {
	first := g.recs[0]
	err := database.Exec(tx, "INSERT INTO threads (id, seq, run_id, created_at, updated_at) VALUES (?, 0, ?, ?, ?)",
		g.thread, g.run, first.Time, first.Time)
	if err != nil {
		return err
	}
	moved, err := g.moveThread(tx)
	if err == nil && !moved {
		err = fmt.Errorf("thread %s: its new row does not move", g.thread)
	}
	return err
}

// rowsPerInsert limits the size of a statement: the driver finds each parameter by a linear search, so larger statements cost more
// than they save.
const rowsPerInsert = 16

func (g *group) insertEvents(tx *gorm.DB) error {
	return insert(tx, "INSERT INTO events (thread_id, seq, turn_id, time, kind, body, sum) VALUES ", 7, "", g.recs, func(args []any, r *record) []any {
		return append(args, r.ThreadID, r.Seq, r.TurnID, r.Time, r.Kind, r.Body, r.Sum)
	})
}

// insert inserts rows with several statements, each of which consists of head, up to rowsPerInsert groups of parameters, and tail.
// values appends the values of a row, one for each column.
func insert[T any](tx *gorm.DB, head string, columns int, tail string, rows []T, values func(args []any, row T) []any) error {
	one := "(?" + strings.Repeat(",?", columns-1) + ")"
	for chunk := range slices.Chunk(rows, rowsPerInsert) {
		args := make([]any, 0, columns*len(chunk))
		for _, row := range chunk {
			args = values(args, row)
		}
		if err := database.Exec(tx, head+one+strings.Repeat(","+one, len(chunk)-1)+tail, args...); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) putTurns(tx *gorm.DB) error {
	started := map[string]*turnRow{} // includes later changes, so that a short turn is written once
	var order []*turnRow
	for _, r := range g.recs {
		t := r.turn
		if t == nil || t.ID == "" {
			continue
		}
		begun := started[t.ID]
		switch {
		case t.FirstSeq > 0 && begun == nil:
			row := *t // a copy, since the transaction may be tried again
			started[t.ID] = &row
			order = append(order, &row)
		case t.FirstSeq > 0: // the turn was resumed and keeps its beginning
			begun.Status, begun.LastSeq, begun.EndedAt = t.Status, 0, 0
		case begun != nil:
			begun.Status, begun.LastSeq, begun.EndedAt = t.Status, t.LastSeq, t.EndedAt
		default:
			err := database.Exec(tx, "UPDATE turns SET status = ?, last_seq = ?, ended_at = ? WHERE thread_id = ? AND id = ?",
				t.Status, t.LastSeq, t.EndedAt, t.ThreadID, t.ID)
			if err != nil {
				return err
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	if err := g.countTurns(tx, order); err != nil {
		return err
	}
	return insert(tx, "INSERT INTO turns (thread_id, id, first_seq, last_seq, status, started_at, ended_at) VALUES ", 7,
		` ON CONFLICT (thread_id, id) DO UPDATE SET status = excluded.status,
			last_seq = excluded.last_seq, ended_at = excluded.ended_at`, order, func(args []any, t *turnRow) []any {
			return append(args, t.ThreadID, t.ID, t.FirstSeq, t.LastSeq, t.Status, t.StartedAt, t.EndedAt)
		})
}

// countTurns adds the number of new turns to the thread's row. Counting all turns would take longer as the thread grows.
func (g *group) countTurns(tx *gorm.DB, started []*turnRow) error {
	ids := make([]string, len(started))
	for i, t := range started {
		ids[i] = t.ID
	}
	var resumed int64
	if err := tx.Model(&turnRow{}).Where("thread_id = ? AND id IN ?", g.thread, ids).Count(&resumed).Error; err != nil {
		return err
	}
	return database.Exec(tx, "UPDATE threads SET turns = turns + ? WHERE id = ?", int64(len(started))-resumed, g.thread)
}

func (g *group) putItems(tx *gorm.DB) error {
	merged := map[string]*itemRow{}
	var order []*itemRow
	for _, r := range g.recs {
		if r.item == nil || r.item.ID == "" {
			continue
		}
		if m := merged[r.item.ID]; m != nil {
			first := m.FirstSeq
			*m = *r.item
			m.FirstSeq = first
			continue
		}
		row := *r.item
		merged[row.ID] = &row
		order = append(order, &row)
	}
	return insert(tx, "INSERT INTO items (thread_id, id, turn_id, call_id, type, status, first_seq, last_seq) VALUES ", 8,
		` ON CONFLICT (thread_id, id) DO UPDATE SET turn_id = excluded.turn_id,
			call_id = excluded.call_id, type = excluded.type, status = excluded.status, last_seq = excluded.last_seq`, order,
		func(args []any, i *itemRow) []any {
			return append(args, i.ThreadID, i.ID, i.TurnID, i.CallID, i.Type, i.Status, i.FirstSeq, i.LastSeq)
		})
}

func (g *group) putPassages(tx *gorm.DB) error {
	for _, r := range g.recs {
		p := r.passage
		if p == nil {
			continue
		}
		err := database.Exec(tx, "INSERT INTO passages (thread_id, seq, turn_id, role, text) VALUES (?, ?, ?, ?, ?)",
			p.ThreadID, p.Seq, p.TurnID, p.Role, p.Text)
		if err != nil {
			return err
		}
	}
	return nil
}

// putReverts comes last, because it derives columns of the thread's row from the turns that are not reverted.
func (g *group) putReverts(tx *gorm.DB) error {
	reverted := false
	for _, r := range g.recs {
		if r.revert == nil {
			continue
		}
		reverted = true
		err := database.Exec(tx, "INSERT INTO reverts (thread_id, seq, from_seq, through_seq) VALUES (?, ?, ?, ?)",
			r.ThreadID, r.revert.Seq, r.revert.FromSeq, r.revert.ThroughSeq)
		if err != nil {
			return err
		}
	}
	if !reverted {
		return nil
	}
	return updateTurnColumns(tx, g.thread)
}

func (g *group) putRefs(tx *gorm.DB) error {
	seen := map[string]bool{}
	for _, r := range g.recs {
		for _, digest := range r.refs {
			if seen[digest] {
				continue
			}
			seen[digest] = true
			n, err := database.Affected(tx, `INSERT INTO artifact_refs (sha256, thread_id)
				SELECT sha256, ? FROM artifacts WHERE sha256 = ? ON CONFLICT DO NOTHING`, g.thread, digest)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // not an artifact, or already recorded
			}
			err = database.Exec(tx, "UPDATE artifacts SET holds = holds - 1 WHERE sha256 = ? AND holds > 0", digest)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func putArtifactRow(tx *gorm.DB, a *artifactRow) error {
	return database.Exec(tx, `INSERT INTO artifacts (sha256, size, media_type, name, created_at, used_at, holds) VALUES (?, ?, ?, ?, ?, ?, 1)
		ON CONFLICT (sha256) DO UPDATE SET used_at = excluded.used_at, holds = artifacts.holds + 1`,
		a.SHA256, a.Size, a.MediaType, a.Name, a.CreatedAt, a.UsedAt)
}
