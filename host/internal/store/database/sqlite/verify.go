package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// maxProblems limits the number of reported problems: one damaged page causes many.
const maxProblems = 20

// Verify implements [database.Conn].
func (c *conn) Verify(ctx context.Context, full bool) (found []string, err error) {
	g, err := c.Read()
	if err != nil {
		return nil, err
	}
	check := "quick_check"
	if full {
		check = "integrity_check"
	}
	rows, err := g.WithContext(ctx).Raw(fmt.Sprintf("PRAGMA %s(%d)", check, maxProblems)).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return found, err
		}
		if line != "ok" {
			found = append(found, line)
		}
	}
	return found, rows.Err()
}

// Reindex implements [database.Conn].
func (c *conn) Reindex(tx *gorm.DB) error {
	return database.Explain(c, "write", tx.Exec("REINDEX").Error)
}
