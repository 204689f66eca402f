// Package database opens a database the way every store of gantry needs it: at a schema version that both sides know, with
// one write after the other, and reads apart from them.
//
// It owns: migrations, one write transaction at a time, waiting for another process's write, what an error means and what
// helps. It must not know: which tables exist, what a transaction is for, how a kind of database works: that is its
// [Driver]'s.
//
// Start with [Open].
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// DefaultBusyWait is how long a write waits for other processes. Writes take less than a millisecond, so 5 s means that
// somebody hangs inside one; beyond it the write fails as busy.
const DefaultBusyWait = 5 * time.Second

// Config says what to open.
type Config struct {
	Driver      Driver
	Source      string        // what the driver opens: a file's path, or the address of a server
	Schema      string        // tells these tables from those of another store in the same database: "threads", "state"
	Migrations  []Migration   // the whole history of the schema, oldest first
	HostVersion string        // of this program, for messages
	BusyWait    time.Duration // default [DefaultBusyWait]
	// ReadOnly opens a database that is there, and makes and changes nothing, no file either. One with an older schema is
	// refused.
	ReadOnly bool
}

// Driver connects to databases of one kind.
type Driver interface {
	// Name is what the configuration calls the kind: "sqlite", "postgres".
	Name() string
	// Connect opens the database that cfg.Source names. It does not touch the schema. Errors are an [*Error] where the
	// database had something to say.
	Connect(ctx context.Context, cfg Config) (Conn, error)
}

// Conn is an open database as its driver knows it. Try is called by one goroutine at a time; the other methods may be called
// beside it.
type Conn interface {
	// Where says which database it is: a file's absolute path, or a server's address. Nothing in it is secret.
	Where() string
	// Alternative is what a user does who wants another database than this: "set GANTRY_HOME to another folder".
	Alternative() string
	// About says what it is and in which version, for people.
	About(ctx context.Context) (string, error)

	// Try makes one try at a transaction, which fn fills. It waits for other processes until ctx ends; what has begun then
	// is finished.
	Try(ctx context.Context, how TxOptions, fn func(tx *gorm.DB) error) error
	// Main is what SchemaVersion reads before there is a transaction. It is used while nothing else is.
	Main() *gorm.DB
	// Read returns a connection for reading only. After Close it fails with [ErrClosed].
	Read() (*gorm.DB, error)
	// Durable tells that every commit survives the end of the machine, whatever TxOptions asks for.
	Durable() bool

	// Statement is a statement of a migration, which is written in SQLite's words, in the words of this database.
	Statement(sql string) string
	// MigrationTable is the name of the table that records migrations.
	MigrationTable() string
	// SchemaVersion is how many migrations the database has seen; 0: none.
	SchemaVersion(g *gorm.DB) (int, error)
	// SetSchemaVersion notes it, where the rows of MigrationTable don't say it.
	SetSchemaVersion(tx *gorm.DB, version int) error
	// Prepare is called before the first migration. It refuses a database with tables of somebody else.
	Prepare(tx *gorm.DB) error

	// Locks are those of the database; nil: it has none, since one machine alone uses it.
	Locks() Locks
	// Fault tells what an error of this kind of database means; false: the error is somebody else's.
	Fault(err error) (Fault, bool)
	// Maintain does what has to be done from time to time, beside writes.
	Maintain(ctx context.Context) error
	// Shrink gives space that deleted rows took back to the system.
	Shrink(tx *gorm.DB) error
	// Verify says what is wrong with what is stored, in the database's own words; full compares indexes with what they are of.
	Verify(ctx context.Context, full bool) ([]string, error)
	// Reindex makes the indexes anew.
	Reindex(tx *gorm.DB) error
	// Close ends all connections. It is called once, when no Try runs.
	Close() error
}

// TxOptions says what a transaction needs.
type TxOptions struct {
	Full       bool // see [Durability]
	Concurrent bool // it may run while other processes' transactions of this kind do
}

// DB is one open database. Its methods may be called from several goroutines; writes happen one after the other.
type DB struct {
	cfg   Config
	conn  Conn
	write chan struct{} // holds one token: whoever has it writes
}

// Open opens the database, makes it if that can be, and brings its schema up to date.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if cfg.BusyWait <= 0 {
		cfg.BusyWait = DefaultBusyWait
	}
	start := time.Now()
	for {
		d, err := open(ctx, cfg)
		if err == nil {
			return d, nil
		}
		// Of several processes that make the same file all but one are turned away at once, whatever the busy timeout is:
		// each holds what another waits for.
		if waited := time.Since(start); !IsBusy(err) || waited > cfg.BusyWait || !pause(ctx, waited) {
			return nil, err
		}
	}
}

func open(ctx context.Context, cfg Config) (*DB, error) {
	conn, err := cfg.Driver.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := &DB{cfg: cfg, conn: conn, write: make(chan struct{}, 1)}
	d.write <- struct{}{}
	bring := d.migrate
	if cfg.ReadOnly {
		bring = d.sameVersion
	}
	if err := bring(ctx); err != nil {
		return nil, errors.Join(d.explain("open", err), d.Close())
	}
	return d, nil
}

// Where says which database it is: a file's absolute path, or a server's address. Nothing in it is secret.
func (d *DB) Where() string { return d.conn.Where() }

// About says what it is and in which version, for people.
func (d *DB) About(ctx context.Context) (string, error) { return d.conn.About(ctx) }

// Durable tells that every commit survives the end of the machine, whatever its [Durability].
func (d *DB) Durable() bool { return d.conn.Durable() }

// Read returns a connection for reading only, apart from the one that writes. What it returns is not for keeping.
func (d *DB) Read(ctx context.Context) (*gorm.DB, error) {
	g, err := d.conn.Read()
	if err != nil {
		return nil, d.explain("read", err)
	}
	return g.WithContext(ctx), nil
}

// Maintain does what the database needs from time to time: it is meant to be called after some MiB were written, beside
// writes. If that does not work now it does the next time.
func (d *DB) Maintain(ctx context.Context) error { return d.conn.Maintain(ctx) }

// Shrink gives space that deleted rows took back to the system. It is a write.
func (d *DB) Shrink(tx *gorm.DB) error { return d.conn.Shrink(tx) }

// Verify says what is wrong with what is stored, in the database's own words; with full its indexes are compared with what they
// are of. A server looks after itself.
func (d *DB) Verify(ctx context.Context, full bool) ([]string, error) {
	found, err := d.conn.Verify(ctx, full)
	return found, d.explain("read", err)
}

// Reindex makes the indexes anew. It is a write.
func (d *DB) Reindex(tx *gorm.DB) error { return d.conn.Reindex(tx) }

// Close closes all connections. It waits for the write under way. Calling it again does nothing.
func (d *DB) Close() error {
	if _, open := <-d.write; !open {
		return nil
	}
	close(d.write)
	if err := d.conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		return fmt.Errorf("close database %s: %w", d.Where(), err)
	}
	return nil
}
