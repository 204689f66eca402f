package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"gorm.io/gorm"
)

// Maintain implements [database.Conn]: it moves the write-ahead log into the database if the log has grown large. Most of it
// holds up nobody. Then the log has to begin anew, and while one process or another always writes, that moment never comes
// by itself; so the rest is moved while writes wait, which takes as long as a few of them.
func (c *conn) Maintain(ctx context.Context) error {
	info, err := os.Stat(c.path + "-wal")
	if err != nil || info.Size() < checkpointBytes {
		return nil // no log, nothing to move
	}
	g, err := c.Read()
	if err != nil {
		return err
	}
	return g.WithContext(ctx).Connection(func(tx *gorm.DB) error {
		pool := tx.Statement.ConnPool // gorm would carry an error of one statement over to the next
		var errs []error
		try := func(ctx context.Context, statement string) {
			if _, err := pool.ExecContext(ctx, statement); err != nil && !isBusy(err) {
				errs = append(errs, err)
			}
		}
		setting := context.WithoutCancel(ctx)
		try(setting, "PRAGMA query_only(0)") // this connection is one for reading
		crashpoint.At(crashpoint.CheckpointBefore, "")
		try(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
		crashpoint.At(crashpoint.CheckpointCopied, "")
		try(setting, "PRAGMA busy_timeout(0)") // while SQLite waits for a reader it keeps writers out
		errs = append(errs, restart(ctx, pool))
		crashpoint.At(crashpoint.CheckpointAfter, "")
		try(setting, fmt.Sprintf("PRAGMA busy_timeout(%d)", c.busyWait.Milliseconds()))
		try(setting, "PRAGMA query_only(1)")
		return errors.Join(errs...)
	})
}

// restart moves the rest of the log and lets the next write begin it anew, if that works within a moment.
func restart(ctx context.Context, pool gorm.ConnPool) error {
	start := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 3*time.Millisecond) {
		var busy, frames, moved int
		err := pool.QueryRowContext(ctx, "PRAGMA wal_checkpoint(RESTART)").Scan(&busy, &frames, &moved)
		if err == nil && busy == 0 || time.Since(start) > restartWait {
			return nil
		}
		if err != nil && !isBusy(err) {
			return err
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// shrinkPages is how many free pages one shrink gives back to the file system: 64 MiB, a fraction of a second.
const shrinkPages = 16384

// Shrink implements [database.Conn].
func (c *conn) Shrink(tx *gorm.DB) error {
	// A query and not a statement: each step of it frees one page.
	rows, err := tx.Raw(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages)).Rows()
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}
