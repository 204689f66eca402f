package database

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// Durability is what a commit must survive.
type Durability bool

// A Normal commit survives the end of the process, also by kill -9. A Full commit, and all earlier commits of the database, also
// survive a crash of the machine.
const (
	Normal Durability = false
	Full   Durability = true
)

// A driver waits for the writes of other gantry processes in turn. If something else blocks a write, it is tried again after a random
// pause that grows with the time waited, because no event signals the end of the other write. SQLite's own busy handler soon waits 100 ms between two tries, so that one process can starve another:
// of two processes that write continuously, one waited up to 1.5 s with it, and up to 0.1 s with these pauses. A try costs 10 µs.
const (
	shortestPause = 50 * time.Microsecond
	longestPause  = 5 * time.Millisecond
	pauseShare    = 32 // of the time waited so far
)

// Write runs fn in a transaction that excludes all other writers, and commits. While another process writes it waits, at most
// Config.BusyWait or until ctx ends; fn may run more than once. ctx cancels only the waiting: a transaction that has begun is
// completed.
func (d *DB) Write(ctx context.Context, durability Durability, fn func(tx *gorm.DB) error) error {
	return d.try(ctx, TxOptions{Full: bool(durability)}, fn)
}

// WriteConcurrent is [DB.Write] for a transaction that changes shared rows only by single statements, and otherwise only rows that
// no other process writes. If the database supports it, such transactions of several processes run concurrently.
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

// pause waits before another try. It returns false if ctx ends.
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
