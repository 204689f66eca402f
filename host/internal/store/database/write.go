package database

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// Durability says what a commit waits for.
type Durability bool

// Normal survives the end of the process, also by kill -9. Full survives the end of the machine too, and makes all
// earlier commits of the database do so.
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

// Write runs fn in a transaction beside which no other process writes, and commits. While another process writes it waits,
// at most Config.BusyWait or until ctx ends; fn is run again if it met the other process only later. ctx bounds waiting,
// not the transaction: what has begun is finished.
func (d *DB) Write(ctx context.Context, durability Durability, fn func(tx *gorm.DB) error) error {
	return d.try(ctx, TxOptions{Full: bool(durability)}, fn)
}

// WriteConcurrent is [DB.Write] for a transaction that keeps to rows which nobody else writes, or that changes others by single
// statements: where the database can, it runs beside transactions of other processes that do so, too.
func (d *DB) WriteConcurrent(ctx context.Context, durability Durability, fn func(tx *gorm.DB) error) error {
	return d.try(ctx, TxOptions{Full: bool(durability), Concurrent: true}, fn)
}

func (d *DB) try(ctx context.Context, how TxOptions, fn func(tx *gorm.DB) error) error {
	if d.cfg.ReadOnly {
		return fmt.Errorf("write database %s: %w", d.Where(), ErrReadOnly)
	}
	select {
	case _, open := <-d.write:
		if !open {
			return ErrClosed
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { d.write <- struct{}{} }()
	start := time.Now()
	for {
		err := d.explain("write", d.conn.Try(ctx, how, fn))
		waited := time.Since(start)
		if !IsBusy(err) || waited > d.cfg.BusyWait {
			return err
		}
		if !pause(ctx, waited) {
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
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
