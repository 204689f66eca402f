package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"gorm.io/gorm"
)

// Run is one host process that has written to the store.
type Run struct {
	ID          string
	PID         int
	HostVersion string
	Started     time.Time
	Ended       time.Time // zero: it runs, or it was killed
}

// Runs lists the host processes that have written, the latest first. Limit 0: all.
func (s *Store) Runs(ctx context.Context, limit int) ([]Run, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	q := g.Order("started_at DESC, id DESC")
	if limit > 0 {
		q = q.Limit(limit)
	}
	var rows []runRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list runs: %w", s.db.Explain(err))
	}
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = Run{
			ID: r.ID, PID: r.PID, HostVersion: r.HostVersion, Started: timeOf(r.StartedAt), Ended: timeOf(r.EndedAt),
		}
	}
	return runs, nil
}

// keepRuns is how long a run is listed that no thread was last written by.
const keepRuns = 30 * 24 * time.Hour

func deleteOldRuns(tx *gorm.DB) error {
	return exec(tx, "DELETE FROM runs WHERE started_at < ? AND id NOT IN (SELECT run_id FROM threads)",
		time.Now().Add(-keepRuns).UnixNano())
}

// RunSocket returns the path of the socket on which the process listens that runs a thread, and makes its folder, which
// only its owner can enter. It is <home>/run/<id>.sock. Where that is longer than a socket's address may be it is a path
// below the system's temporary folder that depends on home alone, so that every process of the user finds it.
//
// Whoever holds the thread's lock may remove a file that is there: its process has ended.
func RunSocket(home string, thread event.ThreadID) (string, error) {
	if err := checkThreadID(thread); err != nil {
		return "", fmt.Errorf("run socket: %w", err)
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("run socket: %w", err)
	}
	dir := filepath.Join(home, "run")
	path := filepath.Join(dir, string(thread)+".sock")
	if len(path) <= maxSocketPath {
		if err := privateDir(dir); err != nil {
			return "", fmt.Errorf("run socket: %w", err)
		}
		return path, nil
	}
	digest := sha256.Sum256([]byte(home))
	dir = filepath.Join(shortTemp, fmt.Sprintf("gantry-%d-%s", os.Getuid(), hex.EncodeToString(digest[:6])))
	path = filepath.Join(dir, string(thread)+".sock")
	if len(path) > maxSocketPath {
		return "", hint.With(fmt.Errorf("run socket: %s has more than %d bytes", path, maxSocketPath), "set GANTRY_HOME to a shorter path")
	}
	if err := ownDir(dir); err != nil {
		return "", hint.With(fmt.Errorf("run socket: %w", err),
			fmt.Sprintf("set GANTRY_HOME to a path of at most %d bytes", maxSocketPath-len("/run/.sock")-len(thread)))
	}
	return path, nil
}

// ownDir makes a folder in a place where others can make folders too. One that is there must be this user's and private.
func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !isOwn(info) {
		return fmt.Errorf("%s is not a private folder of this user", dir)
	}
	return nil
}
