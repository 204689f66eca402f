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

// Maintain implements [database.Conn]. If the write-ahead log has grown large, it moves its content into the database, most of it
// without blocking other processes. Then the log must be restarted, which can't happen while some process always writes. So the rest
// is moved while writes wait, which takes as long as a few of them.
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
		pool := tx.Statement.ConnPool // not tx, which would keep the error of one statement for the next
		var errs []error
		try := func(ctx context.Context, statement string) {
			if _, err := pool.ExecContext(ctx, statement); err != nil && !isBusy(err) {
				errs = append(errs, err)
			}
		}
		setting := context.WithoutCancel(ctx)
		try(setting, "PRAGMA query_only(0)") // the connection is from the pool for reading
		crashpoint.At(crashpoint.CheckpointBefore, "")
		try(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
		crashpoint.At(crashpoint.CheckpointCopied, "")
		try(setting, "PRAGMA busy_timeout(0)") // while SQLite waits for a reader, it blocks writers
		errs = append(errs, restart(ctx, pool))
		crashpoint.At(crashpoint.CheckpointAfter, "")
		try(setting, fmt.Sprintf("PRAGMA busy_timeout(%d)", c.busyWait.Milliseconds()))
		try(setting, "PRAGMA query_only(1)")
		return errors.Join(errs...)
	})
}

// restart moves the rest of the log, so that the next write restarts it. It gives up after restartWait.
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

// shrinkPages is the maximum number of free pages that one shrink returns to the file system: 64 MiB, which takes a fraction of a
// second.
const shrinkPages = 16384

// Shrink implements [database.Conn].
func (c *conn) Shrink(tx *gorm.DB) error {
	// This must be a query: each row frees one page.
	rows, err := tx.Raw(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages)).Rows()
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}
