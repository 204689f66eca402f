package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"gorm.io/gorm"
)

// Events yields the stored events of a thread after the number afterSeq, in order. An event that this version can't decode is
// an [event.Unknown] with a [*DecodeError], after which the consumer may continue. Any other error ends the sequence; a
// [*DamageError] comes after the last event before the damage. A consumer that stops early leaves nothing open.
func (s *Store) Events(ctx context.Context, thread event.ThreadID, afterSeq uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r, err := s.reader(ctx, thread)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		// Read the length before the first page: a running thread grows meanwhile.
		l, found, err := r.length()
		if err != nil {
			yield(event.Event{}, r.failed(afterSeq, err))
			return
		}
		last := afterSeq
		for e, err := range r.between(span{afterSeq, math.MaxInt64}) {
			if _, newer := errors.AsType[*DecodeError](err); !yield(e, err) || err != nil && !newer {
				return
			}
			last = e.Seq
		}
		if err := l.short(last); found && err != nil {
			yield(event.Event{}, r.damaged(last, err))
		}
	}
}

// Export writes the events of a thread as JSON, one per line. It does not export artifacts.
func (s *Store) Export(ctx context.Context, thread event.ThreadID, w io.Writer) error {
	return writeLines(w, thread, s.Events(ctx, thread, 0))
}

// writeLines writes events as those of a thread, as JSON, one per line.
func writeLines(w io.Writer, thread event.ThreadID, events iter.Seq2[event.Event, error]) error {
	out := bufio.NewWriter(w)
	n := 0
	for e, err := range events {
		if _, unreadable := errors.AsType[*DecodeError](err); err != nil && !unreadable {
			return err // an event that can't be decoded is exported as it is stored
		}
		e.Thread = thread
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("export thread %s: event %d: %w", thread, e.Seq, err)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("export thread %s: %w", thread, err)
		}
		n++
	}
	if n == 0 {
		return &NotFoundError{What: "thread", ID: string(thread)}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("export thread %s: %w", thread, err)
	}
	return nil
}

// maxLineBytes limits a line of an import: the largest event, with escapes and envelope.
const maxLineBytes = maxBodyBytes + 1<<20

// Import stores a thread that Export has written, either all of it or nothing. If the thread exists, the error is an
// [*ExistsError].
func (s *Store) Import(ctx context.Context, r io.Reader) (ThreadInfo, error) {
	// Read and check everything before the transaction begins, since the source may be slow or invalid.
	spool, thread, err := s.spool(ctx, r)
	if err != nil {
		return ThreadInfo{}, fmt.Errorf("import thread: %w", err)
	}
	defer func() {
		_ = spool.Close()
		_ = os.Remove(spool.Name()) // otherwise the next Collect removes it
	}()
	err = s.db.ChangeThread(ctx, thread, func(tx *gorm.DB) error {
		if err := mustNotExist(tx, thread); err != nil {
			return err
		}
		if _, err := spool.Seek(0, io.SeekStart); err != nil {
			return err
		}
		g := &group{thread: string(thread), run: s.writer.run.ID}
		for rec, err := range spooled(spool) {
			if err != nil {
				return err
			}
			if g.recs = append(g.recs, rec); len(g.recs) >= pageRows {
				if err := g.store(tx); err != nil {
					return err
				}
				g.recs = nil
			}
		}
		if len(g.recs) == 0 {
			return nil
		}
		return g.store(tx)
	})
	if err != nil {
		return ThreadInfo{}, fmt.Errorf("import thread: %w", err)
	}
	if s.cfg.RefuseReads {
		return ThreadInfo{ID: thread}, nil
	}
	return s.Thread(ctx, string(thread))
}

// spool copies an import to a temporary file, and checks that it is one complete thread.
func (s *Store) spool(ctx context.Context, r io.Reader) (_ *os.File, thread event.ThreadID, err error) {
	f, err := s.files.Temp("import-")
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(filepath.Clean(f.Name())))
		}
	}()
	out := bufio.NewWriter(f)
	var seq uint64
	for rec, err := range spooled(io.TeeReader(artifacts.NewReader(ctx, r), out)) {
		if err != nil {
			return nil, "", err
		}
		if seq == 0 {
			thread = event.ThreadID(rec.ThreadID)
			if err := thread.Check(); err != nil {
				return nil, "", fmt.Errorf("event %d: %w", rec.Seq, err)
			}
		}
		if rec.ThreadID != string(thread) {
			return nil, "", hint.With(fmt.Errorf("event %d belongs to thread %s, and the events before it to thread %s", rec.Seq, rec.ThreadID, thread), "import one thread at a time")
		}
		seq++
		if rec.Seq != seq {
			return nil, "", hint.With(fmt.Errorf("found event %d instead of event %d", rec.Seq, seq), "export the thread again")
		}
	}
	if seq == 0 {
		return nil, "", errors.New("it contains no events")
	}
	return f, thread, out.Flush()
}

// spooled reads the lines of an export.
func spooled(r io.Reader) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
		n := 0
		for lines.Scan() {
			n++
			if len(lines.Bytes()) == 0 {
				continue
			}
			var e event.Event
			err := json.Unmarshal(lines.Bytes(), &e)
			if err == nil && !e.Durable() {
				continue // the source may be a recorded live stream
			}
			var rec record
			if err == nil {
				rec, err = newRecord(e)
			}
			if err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(&rec, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}
