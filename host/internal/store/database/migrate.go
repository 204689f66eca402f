package database

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Migration is one step of a schema. Its place in the list, from 1, is the version that it leads to. A migration that was
// released is never changed.
type Migration struct {
	Name string
	SQL  []string
}

// NewerError refuses a database that a later program has migrated: what an older one would write might mean something
// else by now.
type NewerError struct {
	Path      string
	Have      int    // the version of the file
	Know      int    // the version of this program's newest migration
	WrittenBy string // version of the program that migrated it; may be empty
	Host      string // version of this program; may be empty
}

// Error implements error.
func (e *NewerError) Error() string {
	by := ""
	if e.WrittenBy != "" {
		by = ", written by gantry " + e.WrittenBy
	}
	this := "this gantry"
	if e.Host != "" {
		this += " (" + e.Host + ")"
	}
	return fmt.Sprintf("open database %s: it has schema version %d%s, and %s knows versions up to %d; next: update gantry, "+
		"or set GANTRY_HOME to another folder", e.Path, e.Have, by, this, e.Know)
}

// migrationRow records when a version was reached and by whom.
type migrationRow struct {
	Version     int `gorm:"primaryKey"`
	Name        string
	HostVersion string
	AppliedAt   int64
}

func (migrationRow) TableName() string { return "migrations" }

const createMigrations = `CREATE TABLE IF NOT EXISTS migrations (
	version INTEGER PRIMARY KEY, name TEXT NOT NULL, host_version TEXT NOT NULL, applied_at INTEGER NOT NULL)`

// migrate reads one number where nothing is to be done, which is nearly always.
func (d *DB) migrate(ctx context.Context) error {
	have, err := schemaVersion(d.gorm)
	if err != nil {
		return explain(d.cfg.Path, "open", err)
	}
	know := len(d.cfg.Migrations)
	switch {
	case have == know:
		return nil
	case have > know:
		return d.newer(d.gorm, have)
	}
	return d.Write(ctx, Full, d.upgrade)
}

// upgrade applies what is missing, in one transaction. Another process may have been here since migrate looked.
func (d *DB) upgrade(tx *gorm.DB) error {
	have, err := schemaVersion(tx)
	if err != nil {
		return err
	}
	know := len(d.cfg.Migrations)
	if have > know {
		return d.newer(tx, have)
	}
	if have == 0 {
		if err := d.refuseForeign(tx); err != nil {
			return err
		}
	}
	if err := tx.Exec(createMigrations).Error; err != nil {
		return err
	}
	for v := have + 1; v <= know; v++ {
		if err := d.apply(tx, v); err != nil {
			return err
		}
	}
	return tx.Exec(fmt.Sprintf("PRAGMA user_version(%d)", know)).Error
}

func (d *DB) apply(tx *gorm.DB, version int) error {
	m := d.cfg.Migrations[version-1]
	for _, statement := range m.SQL {
		if err := tx.Exec(statement).Error; err != nil {
			return fmt.Errorf("migrate database %s to schema version %d (%s): %w", d.cfg.Path, version, m.Name, err)
		}
	}
	return tx.Create(&migrationRow{
		Version: version, Name: m.Name, HostVersion: d.cfg.HostVersion, AppliedAt: time.Now().UnixNano(),
	}).Error
}

func schemaVersion(g *gorm.DB) (int, error) {
	var v int
	err := g.Raw("PRAGMA user_version").Scan(&v).Error
	return v, err
}

func (d *DB) newer(g *gorm.DB, have int) error {
	e := &NewerError{Path: d.cfg.Path, Have: have, Know: len(d.cfg.Migrations), Host: d.cfg.HostVersion}
	var row migrationRow
	// Only for the message: a later program may record its migrations otherwise.
	if err := g.Order("version DESC").Limit(1).Find(&row).Error; err == nil {
		e.WrittenBy = row.HostVersion
	}
	return e
}

// refuseForeign keeps gantry from putting its tables into some other program's database.
func (d *DB) refuseForeign(tx *gorm.DB) error {
	var n int64
	if err := tx.Raw("SELECT count(*) FROM sqlite_master").Scan(&n).Error; err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("open database %s: it has tables that are not gantry's; next: move it away, or set GANTRY_HOME "+
			"to another folder", d.cfg.Path)
	}
	return nil
}
