package database

import "gorm.io/gorm"

// SetMigrations makes d another program's.
func (d *DB) SetMigrations(m []Migration) { d.cfg.Migrations = m }

// Upgrade is the transaction that brings the schema up to date.
func (d *DB) Upgrade(tx *gorm.DB) error { return d.upgrade(tx) }

// Version is the schema's.
func (d *DB) Version() (int, error) { return d.conn.SchemaVersion(d.conn.Main()) }

// MigrationTable is where migrations are recorded.
func (d *DB) MigrationTable() string { return d.conn.MigrationTable() }
