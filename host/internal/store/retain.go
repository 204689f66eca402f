package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

const (
	// artifactGrace is how long an artifact is kept without a reference: the call that stored it may still be running, and its
	// result may refer to it.
	artifactGrace = 24 * time.Hour

	// collectRows limits one transaction of a collection, so that other processes can write in between.
	collectRows = 500
)

// Report lists what was removed, or would be removed with Policy.DryRun.
type Report struct {
	Threads   []event.ThreadID
	Skipped   []event.ThreadID // open in some process
	Artifacts int
	Bytes     int64 // of artifacts
}

func (r *Report) add(o Report) {
	r.Artifacts += o.Artifacts
	r.Bytes += o.Bytes
}

// Delete removes a thread with all of its rows, the agents that it has spawned, and the artifacts that no other thread refers to. If a
// process has one of the threads open, the error is a [*LockedError] and nothing is removed.
func (s *Store) Delete(ctx context.Context, thread event.ThreadID) (report Report, err error) {
	agents, err := agentsOf(ctx, s, thread)
	if err != nil {
		return Report{}, fmt.Errorf("delete thread: %w", err)
	}
	all := append([]event.ThreadID{thread}, agents...) // the root first, because its owner starts the others
	for _, id := range all {
		lock, lerr := s.LockThread(ctx, id)
		if lerr != nil {
			return Report{}, fmt.Errorf("delete thread: %w", lerr)
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	for _, id := range slices.Backward(all) {
		part, derr := s.delete(ctx, id)
		report.add(part)
		report.Threads = append(part.Threads, report.Threads...)
		if derr != nil {
			return report, fmt.Errorf("delete thread: %w", derr)
		}
	}
	return report, nil
}

// agentsOf returns the threads of the agents that a thread has spawned, archived or not, each after the one that has spawned it.
func agentsOf(ctx context.Context, s *Store, thread event.ThreadID) (out []event.ThreadID, err error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	var rows []threadRow
	for parents := []string{string(thread)}; len(parents) > 0; {
		rows = nil
		if err := g.Select("id").Where("parent IN ? AND source = ?", parents, event.SourceAgent).Order("id").Find(&rows).Error; err != nil {
			return nil, s.db.Explain(err)
		}
		parents = nil
		for _, r := range rows {
			parents = append(parents, r.ID)
			out = append(out, event.ThreadID(r.ID))
		}
	}
	return out, nil
}

func (s *Store) delete(ctx context.Context, thread event.ThreadID) (Report, error) {
	report, err := s.removeArtifacts(ctx, func(ctx context.Context) ([]artifacts.Unused, error) {
		var dead []artifacts.Unused
		err := s.db.ChangeThread(ctx, thread, func(tx *gorm.DB) error {
			var err error
			dead, err = deleteThread(tx, string(thread))
			crashpoint.At(crashpoint.RowsWritten, "deleted")
			return err
		})
		return dead, err
	})
	if err == nil {
		report.Threads = []event.ThreadID{thread}
	}
	return report, err
}

func deleteThread(tx *gorm.DB, thread string) (dead []artifacts.Unused, err error) {
	n, err := database.Affected(tx, "DELETE FROM threads WHERE id = ?", thread)
	if err != nil {
		return nil, err
	}
	if n == 0 { // a damaged thread may have events without a row in threads
		var events []eventRow
		if err := tx.Select("id").Where("thread_id = ?", thread).Limit(1).Find(&events).Error; err != nil {
			return nil, err
		}
		if len(events) == 0 {
			return nil, &NotFoundError{What: "thread", ID: thread}
		}
	}
	var mentioned []artifacts.Unused
	err = tx.Raw(`SELECT a.sha256, a.size, a.used_at FROM artifacts a JOIN artifact_refs r ON r.sha256 = a.sha256
		WHERE r.thread_id = ? AND a.holds = 0`, thread).Scan(&mentioned).Error
	if err != nil {
		return nil, err
	}
	for _, q := range []string{
		"DELETE FROM events WHERE thread_id = ?",
		"DELETE FROM turns WHERE thread_id = ?",
		"DELETE FROM items WHERE thread_id = ?",
		"DELETE FROM passages WHERE thread_id = ?",
		"DELETE FROM reverts WHERE thread_id = ?",
		"DELETE FROM read_states WHERE thread_id = ?",
		"DELETE FROM artifact_refs WHERE thread_id = ?",
		"DELETE FROM agent_edges WHERE child = ?",
		"DELETE FROM agent_edges WHERE parent = ?",
		"DELETE FROM agent_messages WHERE recipient = ?",
		"DELETE FROM agent_messages WHERE sender = ?",
	} {
		if err := database.Exec(tx, q, thread); err != nil {
			return nil, err
		}
	}
	for _, u := range mentioned {
		n, err := database.Affected(tx, `DELETE FROM artifacts WHERE sha256 = ?
			AND NOT EXISTS (SELECT 1 FROM artifact_refs WHERE sha256 = artifacts.sha256)`, u.SHA256)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			dead = append(dead, u)
		}
	}
	return dead, nil
}

// removeArtifacts runs find, which deletes artifacts from the database, and removes their files.
func (s *Store) removeArtifacts(ctx context.Context, find func(context.Context) ([]artifacts.Unused, error)) (r Report, err error) {
	r.Artifacts, r.Bytes, err = s.files.Remove(ctx, find)
	return r, err
}

// Collect removes artifacts that no thread refers to, a day after they were stored at the earliest, and files that crashes have
// left in the artifact folder.
func (s *Store) Collect(ctx context.Context) (Report, error) {
	var report Report
	cutoff := time.Now().Add(-artifactGrace)
	for {
		n := 0
		part, err := s.removeArtifacts(ctx, func(ctx context.Context) ([]artifacts.Unused, error) {
			dead, err := s.takeUnmentioned(ctx, cutoff)
			n = len(dead)
			return dead, err
		})
		report.add(part)
		if err != nil {
			return report, fmt.Errorf("collect artifacts: %w", err)
		}
		if n < collectRows {
			break
		}
	}
	part, err := s.removeArtifacts(ctx, func(ctx context.Context) ([]artifacts.Unused, error) { return s.strays(ctx, cutoff) })
	report.add(part)
	if err == nil {
		err = s.db.Change(ctx, deleteOldRuns)
	}
	if err != nil {
		return report, fmt.Errorf("collect artifacts: %w", err)
	}
	return report, nil
}

func (s *Store) takeUnmentioned(ctx context.Context, cutoff time.Time) ([]artifacts.Unused, error) {
	var dead []artifacts.Unused
	err := s.db.Change(ctx, func(tx *gorm.DB) error {
		dead = nil
		err := tx.Raw(`SELECT sha256, size, used_at FROM artifacts WHERE (holds = 0 OR used_at < ?)
			AND NOT EXISTS (SELECT 1 FROM artifact_refs WHERE sha256 = artifacts.sha256) LIMIT ?`,
			cutoff.UnixNano(), collectRows).Scan(&dead).Error
		for _, u := range dead {
			if err == nil {
				err = database.Exec(tx, "DELETE FROM artifacts WHERE sha256 = ?", u.SHA256)
			}
		}
		return err
	})
	return dead, err
}

// strays returns old files without a row: their process ended after writing the file and before committing the row.
func (s *Store) strays(ctx context.Context, cutoff time.Time) ([]artifacts.Unused, error) {
	files, err := s.files.Old(cutoff)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	var strays []artifacts.Unused
	err = s.db.Change(ctx, func(tx *gorm.DB) error {
		strays = nil
		for _, f := range files {
			var n int64
			if err := tx.Model(&artifactRow{}).Where("sha256 = ?", f.SHA256).Count(&n).Error; err != nil {
				return err
			}
			if n == 0 {
				strays = append(strays, f)
			}
		}
		return nil
	})
	return strays, err
}

// Policy determines which threads to keep. A thread is removed if any of the rules applies. The zero Policy keeps all threads.
type Policy struct {
	MaxAge     time.Duration // since the thread was updated; 0: unlimited
	MaxThreads int           // number of most recent threads to keep; 0: all
	KeepNamed  bool          // never remove a thread that has a name
	DryRun     bool          // only report
}

// Retain removes threads according to the policy, and then the artifacts that no thread refers to any more. Threads that are open
// in some process are skipped.
func (s *Store) Retain(ctx context.Context, p Policy) (Report, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return Report{}, err
	}
	var rows []threadRow
	// Agents are kept as long as the thread that has spawned them.
	owned := "threads.source = ? AND EXISTS (SELECT 1 FROM threads above WHERE above.id = threads.parent)"
	err = g.Select("id", "updated_at", "name").Not(owned, event.SourceAgent).Order("updated_at DESC, id DESC").Find(&rows).Error
	if err != nil {
		return Report{}, fmt.Errorf("retain: %w", s.db.Explain(err))
	}
	var report Report
	kept := 0
	oldest := time.Now().Add(-p.MaxAge).UnixNano()
	for _, r := range rows {
		tooOld := p.MaxAge > 0 && r.UpdatedAt < oldest
		tooMany := p.MaxThreads > 0 && kept >= p.MaxThreads
		if !tooOld && !tooMany || p.KeepNamed && r.Name != "" {
			kept++
			continue
		}
		if err := s.retire(ctx, event.ThreadID(r.ID), p.DryRun, &report); err != nil {
			return report, fmt.Errorf("retain: %w", err)
		}
	}
	if p.DryRun {
		return report, nil
	}
	part, err := s.Collect(ctx)
	report.add(part)
	if err == nil && len(report.Threads) > 0 {
		err = s.db.Change(ctx, s.db.Shrink) // returns the space of deleted threads to the system
	}
	if err != nil {
		return report, fmt.Errorf("retain: %w", err)
	}
	return report, nil
}

func (s *Store) retire(ctx context.Context, thread event.ThreadID, dry bool, report *Report) error {
	if dry {
		_, held, err := s.Holder(ctx, thread)
		if err != nil {
			return err
		}
		if held {
			report.Skipped = append(report.Skipped, thread)
		} else {
			report.Threads = append(report.Threads, thread)
		}
		return nil
	}
	part, err := s.Delete(ctx, thread)
	if _, locked := errors.AsType[*LockedError](err); locked {
		report.Skipped = append(report.Skipped, thread)
		return nil
	}
	if _, gone := errors.AsType[*NotFoundError](err); gone {
		return nil // another process has deleted it
	}
	report.add(part)
	report.Threads = append(report.Threads, part.Threads...)
	return err
}

// keepRuns is how long the row of a run is kept after no thread names it as its last writer.
const keepRuns = 30 * 24 * time.Hour

func deleteOldRuns(tx *gorm.DB) error {
	return database.Exec(tx, "DELETE FROM runs WHERE started_at < ? AND id NOT IN (SELECT run_id FROM threads)",
		time.Now().Add(-keepRuns).UnixNano())
}
