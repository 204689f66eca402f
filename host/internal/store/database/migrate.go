package database

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"gorm.io/gorm"
)

// Migration is one step of a schema. Its place in the list, from 1, is the schema version after it. A released migration is never
// changed.
type Migration struct {
	Name string
	// SQL uses SQLite's types, which other drivers translate. PerDriver has the statements of drivers that need different ones, by
	// name of the driver.
	SQL       []string
	PerDriver map[string][]string
}

// NewerError says that a newer program has upgraded the schema. An older program must not write to the database, since the meaning
// of its rows may have changed.
type NewerError struct {
	Where       string // see [DB.Where]
	Version     int    // the version of the database
	Supported   int    // the version of this program's newest migration
	WrittenBy   string // version of the program that migrated it; may be empty
	Host        string // version of this program; may be empty
	Alternative string // what a user does who wants another database
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
	return hint.Line(fmt.Sprintf("open database %s: it has schema version %d%s, and %s supports versions up to %d", e.Where, e.Version, by, this, e.Supported), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *NewerError) NextStep() string { return "update gantry, or " + e.Alternative }

// migrationRow records when a migration was applied, and by which version of the host.
type migrationRow struct {
	Version     int `gorm:"primaryKey"`
	Name        string
	HostVersion string
	AppliedAt   int64
}

// migrate upgrades the schema if necessary. Usually it is not, and reading one number is enough.
func (d *DB) migrate(ctx context.Context) error {
	g := d.conn.Main().WithContext(ctx)
	have, err := d.conn.SchemaVersion(g)
	if err != nil {
		return err
	}
	know := len(d.cfg.Migrations)
	switch {
	case have == know:
		return nil
	case have > know:
		return d.newer(g, have)
	}
	return d.Write(ctx, Full, d.upgrade)
}

// sameVersion checks the schema version of a read-only database.
func (d *DB) sameVersion(ctx context.Context) error {
	g, err := d.Read(ctx)
	if err != nil {
		return err
	}
	have, err := d.conn.SchemaVersion(g)
	if err != nil {
		return err
	}
	know := len(d.cfg.Migrations)
	switch {
	case have > know:
		return d.newer(g, have)
	case have < know:
		return hint.With(fmt.Errorf("open database %s: its schema version is %d; it must be upgraded to %d, but the database is read-only", d.Where(), have, know),
			"open it once where it can be written")
	}
	return nil
}

// upgrade applies the missing migrations in one transaction. Another process may have applied them since migrate read the version.
func (d *DB) upgrade(tx *gorm.DB) error {
	have, err := d.conn.SchemaVersion(tx)
	if err != nil {
		return err
	}
	know := len(d.cfg.Migrations)
	if have > know {
		return d.newer(tx, have)
	}
	if have == 0 {
		if err := d.conn.Prepare(tx); err != nil {
			return err
		}
	}
	table := d.conn.MigrationTable()
	err = tx.Exec(d.conn.Statement("CREATE TABLE IF NOT EXISTS " + table + ` (
		version INTEGER PRIMARY KEY, name TEXT NOT NULL, host_version TEXT NOT NULL, applied_at INTEGER NOT NULL)`)).Error
	if err != nil {
		return err
	}
	for v := have + 1; v <= know; v++ {
		if err := d.apply(tx, v); err != nil {
			return err
		}
		crashpoint.At(crashpoint.Migrated, d.cfg.Schema+" "+strconv.Itoa(v))
	}
	return d.conn.SetSchemaVersion(tx, know)
}

func (d *DB) apply(tx *gorm.DB, version int) error {
	m := d.cfg.Migrations[version-1]
	statements, own := m.PerDriver[d.cfg.Driver.Name()]
	if !own {
		statements = m.SQL
	}
	for _, statement := range statements {
		if !own {
			statement = d.conn.Statement(statement)
		}
		if err := tx.Exec(statement).Error; err != nil {
			return fmt.Errorf("migrate database %s to schema version %d (%s): %w", d.Where(), version, m.Name, err)
		}
	}
	return tx.Table(d.conn.MigrationTable()).Create(&migrationRow{
		Version: version, Name: m.Name, HostVersion: d.cfg.HostVersion, AppliedAt: time.Now().UnixNano(),
	}).Error
}

func (d *DB) newer(g *gorm.DB, have int) error {
	e := &NewerError{
		Where: d.Where(), Version: have, Supported: len(d.cfg.Migrations), Host: d.cfg.HostVersion, Alternative: d.conn.Alternative(),
	}
	var row migrationRow
	// Errors are ignored, since this is only for the message, and a newer program may record its migrations differently.
	if err := g.Table(d.conn.MigrationTable()).Order("version DESC").Limit(1).Find(&row).Error; err == nil {
		e.WrittenBy = row.HostVersion
	}
	return e
}
