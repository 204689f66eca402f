package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"
)

// statementTimeout is the time limit for one statement of a transaction, after which the server is considered unreachable. Nearly all
// statements take less than a millisecond; deleting a thread with a million events took seconds.
const statementTimeout = 30 * time.Second

var errStalled = fmt.Errorf("the server has not responded for %v", statementTimeout)

// Try implements [database.Conn]. It may be called concurrently.
//
// A transaction acquires an advisory lock, which is shared for concurrent transactions and exclusive for others. If the connection
// turns out to be broken, Try opens a new one and tries once more, unless the commit was already sent: its outcome is unknown then.
func (c *conn) Try(ctx context.Context, how database.TxOptions, fn func(tx *gorm.DB) error) error {
	committing, err := c.transaction(ctx, how, fn)
	if f, ok := c.Fault(err); err != nil && ok && f.Kind == database.Unreachable && !committing && ctx.Err() == nil {
		committing, err = c.transaction(ctx, how, fn)
	}
	if f, ok := c.Fault(err); err != nil && committing && ok && f.Kind == database.Unreachable {
		return fmt.Errorf("it is not known whether the change was made: %w", err)
	}
	return err
}

func (c *conn) transaction(ctx context.Context, how database.TxOptions, fn func(tx *gorm.DB) error) (committing bool, err error) {
	begin, enough := context.WithTimeoutCause(ctx, c.busyWait+statementTimeout, errStalled)
	defer enough()
	sc, err := c.writes.Conn(begin)
	if err != nil {
		return false, c.interrupted(ctx, begin, plain(err))
	}
	defer sc.Close()
	lock := "pg_advisory_xact_lock"
	if how.Concurrent {
		lock = "pg_advisory_xact_lock_shared"
	}
	_, err = command(begin, sc, fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = %d; SELECT %s(%d)",
		max(c.busyWait.Milliseconds(), 1), lock, c.key))
	// A transaction that has begun is completed even if ctx ends.
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stall := time.AfterFunc(statementTimeout, func() { cancel(errStalled) })
	defer stall.Stop()
	done := false
	defer func() {
		if !done { // also on a panic
			// If this fails, the pool drops the connection, and the server rolls the transaction back.
			_, _ = command(running, sc, "ROLLBACK")
		}
	}()
	if err != nil {
		return false, c.interrupted(ctx, begin, err)
	}
	tx := c.main.Session(&gorm.Session{NewDB: true, Context: running})
	tx.Statement.ConnPool = pool{patient{sc, stall}}
	if err := fn(tx); err != nil {
		return false, stalled(running, err)
	}
	stall.Reset(statementTimeout)
	tag, err := command(running, sc, "COMMIT")
	done = err == nil
	if err == nil && tag != "COMMIT" {
		err = errors.New("the transaction was rolled back: a statement in it has failed")
		return false, err
	}
	return true, stalled(running, err)
}

// interrupted returns err, or the reason why waiting was cancelled.
func (c *conn) interrupted(ctx, begin context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the database %s: %w", c.where, context.Cause(ctx))
	}
	return stalled(begin, err)
}

func stalled(running context.Context, err error) error {
	if err != nil && context.Cause(running) == errStalled {
		return fmt.Errorf("%w: %w", errStalled, err)
	}
	return err
}

// command runs statements without parameters in one round trip, and returns the command tag of the last one.
func command(ctx context.Context, sc *sql.Conn, statements string) (tag string, err error) {
	err = sc.Raw(func(driver any) error {
		t, err := driver.(*stdlib.Conn).Conn().Exec(ctx, statements)
		tag = t.String()
		return err
	})
	return tag, err
}

// patient is a connection that resets the timeout for each statement.
type patient struct {
	*sql.Conn
	stall *time.Timer
}

// ExecContext implements querier.
func (p patient) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.stall.Reset(statementTimeout)
	return p.Conn.ExecContext(ctx, query, args...)
}

// QueryContext implements querier.
func (p patient) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.stall.Reset(statementTimeout)
	return p.Conn.QueryContext(ctx, query, args...)
}

// QueryRowContext implements querier.
func (p patient) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	p.stall.Reset(statementTimeout)
	return p.Conn.QueryRowContext(ctx, query, args...)
}
