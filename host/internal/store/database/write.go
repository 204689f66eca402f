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

// Waiting for another process's write: no event tells that it is over, so ask again after a short time that varies, from
// firstPause growing to lastPause. SQLite's own busy handler waits up to 100 ms between two tries and so lets one process
// starve another: two processes that write without a pause had a worst wait of seconds with it.
const (
	firstPause = 50 * time.Microsecond
	lastPause  = 2 * time.Millisecond
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
	deadline := time.Now().Add(d.cfg.BusyWait)
	pause := firstPause
	for {
		err := d.transaction(ctx, fn)
		if !isBusy(err) || time.Now().After(deadline) {
			return explain(d.cfg.Path, "write", err)
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w (%w)", explain(d.cfg.Path, "write", err), context.Cause(ctx))
		}
		pause = min(2*pause, lastPause)
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
