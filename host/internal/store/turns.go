package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// TurnInfo is a turn of a stored thread.
type TurnInfo struct {
	ID       event.TurnID
	FirstSeq uint64 // number of its first event
	LastSeq  uint64 // number of its last event; 0: it has not ended
	Status   string // [StatusRunning] or an [event.TurnStatus]
	Started  time.Time
	Ended    time.Time // zero: it has not ended
	Reverted uint64    // number of the event that reverted it; 0: it was not reverted
	HasInput bool      // a user said something in it, or another agent; else it did something to the thread, as a compaction does
	Preview  string    // beginning of what the user said first, in one line; empty: nothing, or not in words
}

// revertOf is an SQL expression for the number of the event that reverted a row of table %[1]s, which begins with the event in
// column %[2]s, or 0. Reverted events can't be reverted again, except as part of a larger revert; the first one is returned.
const revertOf = `COALESCE((SELECT MIN(reverts.seq) FROM reverts WHERE reverts.thread_id = %[1]s.thread_id
	AND reverts.from_seq <= %[1]s.%[2]s AND reverts.seq > %[1]s.%[2]s), 0)`

var (
	revertOfTurn    = fmt.Sprintf(revertOf, "turns", "first_seq")
	revertOfPassage = fmt.Sprintf(revertOf, "passages", "seq")
)

// Turns lists the turns of a thread in order, including reverted ones.
func (s *Store) Turns(ctx context.Context, thread event.ThreadID) ([]TurnInfo, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		ID                          string
		FirstSeq, LastSeq, Reverted uint64
		Status                      string
		StartedAt, EndedAt          int64
	}
	err = g.Raw("SELECT id, first_seq, last_seq, status, started_at, ended_at, "+revertOfTurn+" AS reverted FROM turns WHERE thread_id = ? ORDER BY first_seq",
		string(thread)).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list turns: %w", s.db.Explain(err))
	}
	var texts []passageRow
	if err := g.Where("thread_id = ? AND role = ?", string(thread), RoleUser).Order("seq").Find(&texts).Error; err != nil {
		return nil, fmt.Errorf("list turns: %w", s.db.Explain(err))
	}
	previews := map[string]string{}
	for _, p := range texts {
		if previews[p.TurnID] == "" {
			previews[p.TurnID] = preview(p.Text)
		}
	}
	var spoken []string
	err = g.Raw("SELECT DISTINCT turn_id FROM items WHERE thread_id = ? AND type IN (?, ?)", string(thread), string(event.ItemUserMessage), string(event.ItemMail)).Scan(&spoken).Error
	if err != nil {
		return nil, fmt.Errorf("list turns: %w", s.db.Explain(err))
	}
	said := map[string]bool{}
	for _, id := range spoken {
		said[id] = true
	}
	turns := make([]TurnInfo, len(rows))
	for i, r := range rows {
		turns[i] = TurnInfo{
			ID: event.TurnID(r.ID), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq, Status: r.Status, Started: database.Time(r.StartedAt),
			Ended: database.Time(r.EndedAt), Reverted: r.Reverted, HasInput: said[r.ID], Preview: previews[r.ID],
		}
	}
	return turns, nil
}

// updateTurnColumns sets what the row of a thread says of its turns to those that count.
func updateTurnColumns(tx *gorm.DB, thread string) error {
	standing := " FROM turns WHERE thread_id = ? AND " + revertOfTurn + " = 0"
	var turns int64
	if err := tx.Raw("SELECT COUNT(*)"+standing, thread).Scan(&turns).Error; err != nil {
		return err
	}
	var status, first string
	if err := tx.Raw("SELECT status"+standing+" ORDER BY first_seq DESC LIMIT 1", thread).Scan(&status).Error; err != nil {
		return err
	}
	err := tx.Raw("SELECT text FROM passages WHERE thread_id = ? AND role = ? AND "+revertOfPassage+" = 0 ORDER BY seq LIMIT 1",
		thread, RoleUser).Scan(&first).Error
	if err != nil {
		return err
	}
	return database.Exec(tx, "UPDATE threads SET turns = ?, status = ?, preview = ? WHERE id = ?", turns, status, preview(first), thread)
}

// ReadState says how far the user has read a thread. Turns that have not ended are not unread.
type ReadState struct {
	Unread   bool
	First    event.TurnID // the first unread turn; empty, although Unread: the user has marked a thread as unread that has no turn
	Revision string       // changes with the state
}

// Ended returns the state after the end of a turn, whose first event has the number first. r may be the state before or after the store
// has the end; the zero value is that of a thread which the store does not have yet.
func (r ReadState) Ended(turn event.TurnID, first uint64) ReadState {
	if r.First != "" {
		return r
	}
	marks, _, _ := strings.Cut(cmp.Or(r.Revision, "0"), ".")
	return ReadState{Unread: true, First: turn, Revision: fmt.Sprintf("%s.%d", marks, first)}
}

// unreadFromStart is the position of a thread that was marked as unread before it had a turn.
const unreadFromStart = -1

type readRow struct {
	ThreadID         string
	ReadSeq          int64 // number of the last event that was read, or unreadFromStart
	Marks            int64 // how often the thread was marked
	FirstID, FirstAt string
}

func (r readRow) state() ReadState {
	return ReadState{
		Unread: r.FirstID != "" || r.ReadSeq == unreadFromStart, First: event.TurnID(r.FirstID), Revision: fmt.Sprintf("%d.%s", r.Marks, r.FirstAt),
	}
}

// readRows reads the states of threads. A thread that was not marked is unread from its first turn on.
func readRows(g *gorm.DB, ids []string) (rows []readRow, err error) {
	first := "SELECT %s FROM turns WHERE turns.thread_id = threads.id AND turns.first_seq > COALESCE(r.seq, 0) AND turns.last_seq > 0 AND " +
		revertOfTurn + " = 0 ORDER BY turns.first_seq LIMIT 1"
	err = g.Raw("SELECT threads.id AS thread_id, COALESCE(r.seq, 0) AS read_seq, COALESCE(r.marks, 0) AS marks, COALESCE(("+fmt.Sprintf(first, "turns.id")+
		"), '') AS first_id, COALESCE(("+fmt.Sprintf(first, "CAST(turns.first_seq AS TEXT)")+"), '') AS first_at "+
		"FROM threads LEFT JOIN read_states r ON r.thread_id = threads.id WHERE threads.id IN ?", ids).Scan(&rows).Error
	return rows, err
}

// addReadStates sets the read states of threads.
func (s *Store) addReadStates(g *gorm.DB, infos []ThreadInfo) error {
	ids := make([]string, len(infos))
	places := make(map[string]int, len(infos))
	for i, t := range infos {
		ids[i], places[string(t.ID)] = string(t.ID), i
	}
	rows, err := readRows(g, ids)
	if err != nil {
		return fmt.Errorf("list threads: read states: %w", s.db.Explain(err))
	}
	for _, r := range rows {
		infos[places[r.ThreadID]].Read = r.state()
	}
	return nil
}

// ReadState returns how far the user has read the thread.
func (h History) ReadState(ctx context.Context) (ReadState, error) {
	g, err := h.store.db.Read(ctx)
	if err != nil {
		return ReadState{}, err
	}
	rows, err := readRows(g, []string{string(h.thread)})
	if err != nil {
		return ReadState{}, fmt.Errorf("read state of thread %s: %w", h.thread, h.store.db.Explain(err))
	}
	if len(rows) == 0 {
		return ReadState{}, &NotFoundError{What: "thread", ID: string(h.thread)}
	}
	return rows[0].state(), nil
}

// errMarkedMeanwhile says that a read state has another revision than the caller knows.
var errMarkedMeanwhile = errors.New("the read state has changed meanwhile")

// Mark marks the thread as read, or its last turn as unread, and returns the new state. If the state does not have the expected revision,
// nothing changes and the error says so.
func (h History) Mark(ctx context.Context, unread bool, expected string) (ReadState, error) {
	var out ReadState
	err := h.store.db.Change(ctx, func(tx *gorm.DB) error {
		rows, err := readRows(tx, []string{string(h.thread)})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return &NotFoundError{What: "thread", ID: string(h.thread)}
		}
		if rows[0].state().Revision != expected {
			return hint.With(errMarkedMeanwhile, "read the thread, and use the revision of its read state")
		}
		var last []turnRow
		err = tx.Raw("SELECT first_seq, last_seq FROM turns WHERE thread_id = ? AND last_seq > 0 AND "+revertOfTurn+" = 0 ORDER BY first_seq DESC LIMIT 1",
			string(h.thread)).Scan(&last).Error
		if err != nil {
			return err
		}
		var seq int64
		switch {
		case len(last) == 0 && unread:
			seq = unreadFromStart
		case len(last) > 0 && unread:
			seq = int64(last[0].FirstSeq) - 1
		case len(last) > 0:
			seq = int64(last[0].LastSeq)
		}
		err = database.Exec(tx, `INSERT INTO read_states (thread_id, seq, marks) VALUES (?, ?, 1)
			ON CONFLICT (thread_id) DO UPDATE SET seq = excluded.seq, marks = read_states.marks + 1`, string(h.thread), seq)
		if err != nil {
			return err
		}
		if rows, err = readRows(tx, []string{string(h.thread)}); err == nil {
			out = rows[0].state()
		}
		return err
	})
	if err != nil {
		return ReadState{}, fmt.Errorf("mark thread %s: %w", h.thread, h.store.db.Explain(err))
	}
	return out, nil
}
