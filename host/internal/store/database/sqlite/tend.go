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

// Tend implements [database.Conn]: it moves the write-ahead log into the database if the log has grown large. Most of it
// holds up nobody. Then the log has to begin anew, and while one process or another always writes, that moment never comes
// by itself; so the rest is moved while writes wait, which takes as long as a few of them.
func (c *conn) Tend(ctx context.Context) error {
	info, err := os.Stat(c.path + "-wal")
	if err != nil || info.Size() < checkpointBytes {
		return nil // no log, nothing to move
	}
	g, err := c.Read()
	if err != nil {
		return err
	}
	return g.WithContext(ctx).Connection(func(tx *gorm.DB) error {
		var errs []error
		try := func(statement string) {
			if err := tx.Exec(statement).Error; err != nil && !isBusy(err) {
				errs = append(errs, err)
			}
		}
		try("PRAGMA query_only(0)") // this connection is one for reading
		crashpoint.At(crashpoint.CheckpointBefore, "")
		try("PRAGMA wal_checkpoint(PASSIVE)")
		crashpoint.At(crashpoint.CheckpointCopied, "")
		try("PRAGMA busy_timeout(0)") // while SQLite waits for a reader it keeps writers out
		errs = append(errs, restart(ctx, tx))
		crashpoint.At(crashpoint.CheckpointAfter, "")
		try(fmt.Sprintf("PRAGMA busy_timeout(%d)", c.busyWait.Milliseconds()))
		try("PRAGMA query_only(1)")
		return errors.Join(errs...)
	})
}

// restart moves the rest of the log and lets the next write begin it anew, if that works within a moment.
func restart(ctx context.Context, tx *gorm.DB) error {
	start := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 3*time.Millisecond) {
		var busy, frames, moved int
		err := tx.Raw("PRAGMA wal_checkpoint(RESTART)").Row().Scan(&busy, &frames, &moved)
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
