package store

import (
	"context"
	"fmt"
	"time"

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
