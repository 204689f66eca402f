package database

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// Durability says what a commit waits for.
type Durability bool

// Normal survives the end of the process, also by kill -9. Full survives the end of the machine too, and makes all
// earlier commits of the file do so.
const (
	Normal Durability = false
	Full   Durability = true
)

// Waiting for another process's write: no event tells that it is over, so ask again after a pause that varies and grows with
// the time waited. SQLite's own busy handler soon waits 100 ms between two tries and so lets one process starve another: of
// two processes that write without a pause one waited up to 1.5 s with it, and up to 0.1 s like this. Asking costs 10 µs.
const (
	shortestPause = 50 * time.Microsecond
	longestPause  = 5 * time.Millisecond
	pauseShare    = 32 // of the time waited so far
)

// Write runs fn in a transaction that holds the write lock from its beginning, and commits. While another process writes
// it waits, at most Config.BusyWait or until ctx ends; fn is run again if it met the other process only later. ctx bounds
// waiting, not the transaction: what has begun is finished.
func (d *DB) Write(ctx context.Context, durability Durability, fn func(tx *gorm.DB) error) error {
	select {
	case _, open := <-d.write:
		if !open {
			return sql.ErrConnDone
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { d.write <- struct{}{} }()
	if err := d.synchronous(durability); err != nil {
		return explain(d.cfg.Path, "write", err)
	}
	start := time.Now()
	for {
		err := d.transaction(ctx, fn)
		waited := time.Since(start)
		if !isBusy(err) || waited > d.cfg.BusyWait {
			return explain(d.cfg.Path, "write", err)
		}
		if !pause(ctx, waited) {
			return fmt.Errorf("%w (%w)", explain(d.cfg.Path, "write", err), context.Cause(ctx))
		}
	}
}

// pause waits before another try; false when ctx has ended.
func pause(ctx context.Context, waited time.Duration) bool {
	d := min(max(waited/pauseShare, shortestPause), longestPause)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// synchronous can only be set outside a transaction.
func (d *DB) synchronous(durability Durability) error {
	if d.full == bool(durability) {
		return nil
	}
	level := "PRAGMA synchronous(NORMAL)"
	if durability == Full {
		level = "PRAGMA synchronous(FULL)"
	}
	if _, err := d.conn.ExecContext(context.Background(), level); err != nil {
		return err
	}
	d.full = bool(durability)
	return nil
}

// transaction makes one try. Its statements run without the caller's cancellation, since an interrupted commit may or may
// not have happened.
func (d *DB) transaction(ctx context.Context, fn func(tx *gorm.DB) error) (err error) {
	tx := d.gorm.WithContext(context.WithoutCancel(ctx)).Begin()
	if tx.Error != nil {
		return tx.Error
	}
	committed := false
	defer func() {
		if !committed { // also on a panic
			// SQLite rolls back by itself on some errors; then there is nothing left to roll back.
			tx.Rollback()
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	err = tx.Commit().Error
	committed = err == nil
	return err
}
