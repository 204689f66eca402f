package sqlite

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Try implements [database.Conn]. The transaction acquires the file's write lock at its beginning, and fails immediately if another
// process has it. Statements ignore the caller's cancellation, since an interrupted commit may or may not have happened.
func (c *conn) Try(ctx context.Context, how database.TxOptions, fn func(tx *gorm.DB) error) (err error) {
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
