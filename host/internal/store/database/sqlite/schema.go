package sqlite

import (
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
	sqlite3 "modernc.org/sqlite/lib"
)

// Statement implements [database.Conn].
func (c *conn) Statement(sql string) string { return sql }

// MigrationTable implements [database.Conn].
func (c *conn) MigrationTable() string { return "migrations" }

// SchemaVersion implements [database.Conn]. The number is in the header of the file, where a damaged disk can change it.
func (c *conn) SchemaVersion(g *gorm.DB) (int, error) {
	var v int
	err := g.Raw("PRAGMA user_version").Scan(&v).Error
	if err == nil && v < 0 {
		return 0, &database.Error{Where: c.path, Op: "open", Fault: fault(sqlite3.SQLITE_CORRUPT), Err: fmt.Errorf("schema version %d is not valid", v)}
	}
	return v, err
}

// SetSchemaVersion implements [database.Conn].
func (c *conn) SetSchemaVersion(tx *gorm.DB, version int) error {
	return tx.Exec(fmt.Sprintf("PRAGMA user_version(%d)", version)).Error
}

// Prepare implements [database.Conn]: gantry's tables don't go into some other program's file.
func (c *conn) Prepare(tx *gorm.DB) error {
	var n int64
	if err := tx.Raw("SELECT count(*) FROM sqlite_master").Scan(&n).Error; err != nil {
		return err
	}
	if n > 0 {
		return hint.With(fmt.Errorf("open database %s: it contains tables that are not gantry's", c.path), fmt.Sprintf("move it away, or %s", c.Alternative()))
	}
	return nil
}
