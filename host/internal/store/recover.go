package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/google/uuid"
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

// replaceDamaged sets a database aside that can't be opened, begins a new one, and copies to it what is intact. cause is the error of
// opening it.
func replaceDamaged(ctx context.Context, cfg Config, what database.Config, cause error) (db *database.DB, err error) {
	driver, ok := what.Driver.(database.Salvager)
	if !ok {
		return nil, cause
	}
	err = flock.With(ctx, filepath.Join(cfg.LockDir, "salvage.lock"), true, func() error {
		if db, err = database.Open(ctx, what); !database.IsDamaged(err) {
			return err // another process has replaced it
		}
		aside, err := driver.SetAside(ctx, what.Source)
		if err != nil {
			return errors.Join(cause, err)
		}
		if db, err = database.Open(ctx, what); err != nil {
			return err
		}
		s := salvage{db: db, run: uuid.Must(uuid.NewV7()).String(), next: map[string]uint64{}}
		err = driver.ReadDamaged(ctx, aside, s.copy)
		args := []any{"is_now", aside, "threads", len(s.next), "of_them_incomplete", s.incomplete, "lost", s.lost, "events", s.events}
		if err != nil {
			args = append(args, "err", err)
		}
		cfg.Logger.Warn("the database was damaged; it was set aside, and what is intact was copied to a new one", args...)
		return nil
	})
	return db, err
}

// salvage copies a damaged database to a new one.
type salvage struct {
	db               *database.DB
	run              string
	next             map[string]uint64 // of each thread, the number of the event that must follow
	events           int
	incomplete, lost int // threads
}

// copy copies the events of each thread up to the first one that is missing or was changed. The row of such a thread says how long the
// thread was, so that the thread is treated as any damaged one.
func (s *salvage) copy(g *gorm.DB) error {
	ctx := g.Statement.Context
	if err := s.copyArtifacts(g); err != nil {
		return err
	}
	err := scan(g, "SELECT id, thread_id, seq, turn_id, time, kind, body, sum FROM events WHERE id > ? ORDER BY id LIMIT ?",
		func(rows *sql.Rows) (r eventRow, at int64, err error) {
			err = rows.Scan(&r.ID, &r.ThreadID, &r.Seq, &r.TurnID, &r.Time, &r.Kind, &r.Body, &r.Sum)
			return r, r.ID, err
		},
		func(page []eventRow) error { return s.put(ctx, page) })
	if err != nil {
		return err
	}
	type length struct {
		rowid int64
		id    string
		seq   uint64
	}
	return scan(g, "SELECT rowid, id, seq FROM threads WHERE rowid > ? ORDER BY rowid LIMIT ?",
		func(rows *sql.Rows) (l length, at int64, err error) {
			err = rows.Scan(&l.rowid, &l.id, &l.seq)
			return l, l.rowid, err
		},
		func(page []length) error {
			return s.db.Write(ctx, database.Normal, func(tx *gorm.DB) error {
				incomplete, lost := 0, 0
				for _, l := range page {
					switch next, some := s.next[l.id]; {
					case !some:
						lost++
					case l.seq >= next:
						incomplete++
						if err := database.Exec(tx, "UPDATE threads SET seq = ? WHERE id = ?", l.seq, l.id); err != nil {
							return err
						}
					}
				}
				s.incomplete, s.lost = s.incomplete+incomplete, s.lost+lost
				return nil
			})
		})
}

// put writes the rows that follow what was written of their threads.
func (s *salvage) put(ctx context.Context, page []eventRow) error {
	groups, order := map[string]*group{}, []*group(nil)
	for _, r := range page {
		thread, next := r.ThreadID, max(s.next[r.ThreadID], 1)
		if r.verify(next) != nil || event.ThreadID(thread).Check() != nil {
			continue // no later event follows either
		}
		r.ID, r.Sum = 0, r.checksum()
		e, err := r.event()
		if _, newer := errors.AsType[*DecodeError](err); err != nil && !newer {
			continue
		}
		rec := record{eventRow: r}
		rec.derive(e)
		if groups[thread] == nil {
			groups[thread] = &group{thread: thread, run: s.run}
			order = append(order, groups[thread])
		}
		groups[thread].recs = append(groups[thread].recs, &rec)
		s.next[thread] = next + 1
		s.events++
	}
	return s.db.Write(ctx, database.Normal, func(tx *gorm.DB) error {
		for _, g := range order {
			if err := g.store(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *salvage) copyArtifacts(g *gorm.DB) error {
	return scan(g, "SELECT rowid, sha256, size, media_type, name, created_at, used_at FROM artifacts WHERE rowid > ? ORDER BY rowid LIMIT ?",
		func(rows *sql.Rows) (a artifactRow, at int64, err error) {
			err = rows.Scan(&at, &a.SHA256, &a.Size, &a.MediaType, &a.Name, &a.CreatedAt, &a.UsedAt)
			return a, at, err
		},
		func(page []artifactRow) error {
			return s.db.Write(g.Statement.Context, database.Normal, func(tx *gorm.DB) error {
				for i := range page {
					if err := putArtifactRow(tx, &page[i]); err != nil {
						return err
					}
				}
				return nil
			})
		})
}

const (
	// singleSteps is how many numbers of rows are tried one by one after a place that can't be read; after them, each step is twice as
	// long, so that the number of tries stays small however much is missing.
	singleSteps = 1024
	// lastRowid is far more than any database has rows.
	lastRowid = 1 << 40
)

// scan passes the rows of a table to put, page by page, without those that can't be read. The query takes the number of a row after which
// to begin, and how many rows to read; row reads one and returns its number.
func scan[T any](g *gorm.DB, query string, row func(*sql.Rows) (T, int64, error), put func([]T) error) error {
	for at, step, failed := int64(0), int64(1), 0; at < lastRowid; {
		page, last, err := readPage(g, query, at, row)
		if ctx := g.Statement.Context; ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(page) > 0 {
			if err := put(page); err != nil {
				return err
			}
			at, step, failed = last, 1, 0
			continue
		}
		if err == nil {
			return nil
		}
		at += step
		if failed++; failed > singleSteps {
			step *= 2
		}
	}
	return nil
}

// readPage returns the rows before the first one that can't be read, and the number of the last of them.
func readPage[T any](g *gorm.DB, query string, after int64, row func(*sql.Rows) (T, int64, error)) (page []T, last int64, err error) {
	rows, err := g.Raw(query, after, pageRows).Rows()
	if err != nil {
		return nil, after, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r, at, err := row(rows)
		if err != nil {
			return page, last, err
		}
		page, last = append(page, r), at
	}
	return page, last, rows.Err()
}
