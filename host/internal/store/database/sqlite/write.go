package sqlite

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Try implements [database.Conn]. It waits until no other process writes; writers are served in the order in which they came. The
// transaction acquires the file's write lock at its beginning, and fails immediately if something outside of that order has it: a
// checkpoint, an older gantry, another program. Statements ignore the caller's cancellation, since an interrupted commit may or may
// not have happened.
func (c *conn) Try(ctx context.Context, how database.TxOptions, fn func(tx *gorm.DB) error) (err error) {
	leave, err := c.enqueue(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := c.synchronous(how.Full); err != nil {
		return err
	}
	tx := c.gorm.WithContext(context.WithoutCancel(ctx)).Begin()
	if tx.Error != nil {
		return tx.Error
	}
	committed := false
	defer func() {
		if !committed { // also on a panic
			// The error is ignored: after some errors SQLite has already rolled back.
			tx.Rollback()
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	crashpoint.At(crashpoint.CommitBefore, "")
	err = tx.Commit().Error
	committed = err == nil
	crashpoint.At(crashpoint.CommitAfter, "")
	return err
}

// enqueue waits for the turn of this process. The error is a [*queueError] when that takes longer than busyWait, or ctx ends.
func (c *conn) enqueue(ctx context.Context) (leave func(), err error) {
	if c.queue == nil {
		return func() {}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, c.busyWait)
	defer cancel()
	err = c.queue.Acquire(waiting)
	if err != nil && waiting.Err() != nil {
		return nil, &queueError{cause: err}
	}
	if err != nil {
		return func() {}, nil // a file system without such locks: SQLite's own lock excludes other writers, in any order
	}
	return c.queue.Release, nil
}

// queueError says that other processes wrote until the wait for them ended.
type queueError struct{ cause error }

// Error implements error.
func (e *queueError) Error() string { return "the database is locked by the writes of other processes" }

// Unwrap returns why the wait ended.
func (e *queueError) Unwrap() error { return e.cause }

// synchronous can only be set outside a transaction.
func (c *conn) synchronous(full bool) error {
	if c.full == full {
		return nil
	}
	level := "PRAGMA synchronous(NORMAL)"
	if full {
		level = "PRAGMA synchronous(FULL)"
	}
	if _, err := c.main.ExecContext(context.Background(), level); err != nil {
		return err
	}
	c.full = full
	return nil
}
