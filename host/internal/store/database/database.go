// Package database opens the databases of gantry's stores: it upgrades the schema, serializes writes, and keeps reads separate from
// them.
//
// It owns: migrations, one write transaction at a time, waiting for the writes of other processes, the classes of errors and
// their next steps. It must not know: which tables exist, what a transaction is for, how a kind of database works, which its
// [Driver] knows.
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

// DefaultBusyWait is how long a write waits for other processes before it fails as busy. Writes take about a millisecond, so even
// behind hundreds of processes on a busy machine another one must be blocked inside a write after a minute.
const DefaultBusyWait = time.Minute

// Config describes the database to open.
type Config struct {
	Driver      Driver
	Source      string        // the path of a file, or the address of a server
	Schema      string        // distinguishes the tables of several stores in one database: "threads", "state"
	Migrations  []Migration   // the whole history of the schema, oldest first
	HostVersion string        // version of this program, for messages
	BusyWait    time.Duration // default [DefaultBusyWait]
	// ReadOnly opens an existing database without creating or changing a file. A database with an older schema is refused.
	ReadOnly bool
}

// Driver connects to databases of one kind.
type Driver interface {
	// Name returns the name of the kind in the configuration: "sqlite", "postgres".
	Name() string
	// Connect opens the database at cfg.Source. It does not change the schema. Errors of the database itself are an [*Error].
	Connect(ctx context.Context, cfg Config) (Conn, error)
}

// Conn is a driver's open database. Try is called by one goroutine at a time; the other methods may be called concurrently.
type Conn interface {
	// Where identifies the database: the absolute path of a file, or the address of a server. It contains no secret.
	Where() string
	// Alternative is what a user does who wants another database than this: "set GANTRY_HOME to another folder".
	Alternative() string
	// About describes the database and its version, for people.
	About(ctx context.Context) (string, error)

	// Try tries once to run fn in a transaction. It waits for other processes until ctx ends; a transaction that has begun is
	// completed.
	Try(ctx context.Context, how TxOptions, fn func(tx *gorm.DB) error) error
	// Main returns the connection for reading the schema version while the database is opened.
	Main() *gorm.DB
	// Read returns a connection for reading only. After Close it fails with [ErrClosed].
	Read() (*gorm.DB, error)
	// Durable reports whether every commit survives a crash of the machine, regardless of TxOptions.
	Durable() bool

	// Statement translates a statement of a migration from SQLite's dialect.
	Statement(sql string) string
	// MigrationTable returns the name of the table that records migrations.
	MigrationTable() string
	// SchemaVersion returns the number of applied migrations.
	SchemaVersion(g *gorm.DB) (int, error)
	// SetSchemaVersion stores that number if the rows of MigrationTable don't determine it.
	SetSchemaVersion(tx *gorm.DB, version int) error
	// Prepare is called before the first migration. It refuses a database that contains tables of another program.
	Prepare(tx *gorm.DB) error

	// Locks returns the locks of the database, or nil if only one machine can use it.
	Locks() Locks
	// Fault explains an error of this kind of database. It returns false for other errors.
	Fault(err error) (Fault, bool)
	// Maintain does periodic maintenance, concurrently with writes.
	Maintain(ctx context.Context) error
	// Shrink returns the space of deleted rows to the system.
	Shrink(tx *gorm.DB) error
	// Verify returns the problems that the database finds in itself; with full it compares indexes with their tables.
	Verify(ctx context.Context, full bool) ([]string, error)
	// Reindex rebuilds the indexes.
	Reindex(tx *gorm.DB) error
	// Close ends all connections. It is called once, when no Try runs.
	Close() error
}

// TxOptions are the requirements of a transaction.
type TxOptions struct {
	Full       bool // see [Durability]
	Concurrent bool // see [DB.WriteConcurrent]
}

// DB is one open database. Its methods may be called concurrently; writes happen one after the other.
type DB struct {
	cfg   Config
	conn  Conn
	write chan struct{} // contains one token, which a writer takes
}

// Open opens the database, creates it if necessary, and upgrades its schema.
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
		// If several processes create the same file, SQLite refuses all but one immediately regardless of the busy timeout,
		// because each has a lock for which another one waits.
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

// Where identifies the database: the absolute path of a file, or the address of a server. It contains no secret.
func (d *DB) Where() string { return d.conn.Where() }

// About describes the database and its version, for people.
func (d *DB) About(ctx context.Context) (string, error) { return d.conn.About(ctx) }

// Durable reports whether every commit survives a crash of the machine, regardless of its [Durability].
func (d *DB) Durable() bool { return d.conn.Durable() }

// Read returns a connection for reading, separate from the one that writes. Callers must not keep it.
func (d *DB) Read(ctx context.Context) (*gorm.DB, error) {
	g, err := d.conn.Read()
	if err != nil {
		return nil, d.explain("read", err)
	}
	return g.WithContext(ctx), nil
}

// Maintain does the maintenance that the database needs after some MiB of writes. It may run concurrently with writes. Work that
// is not possible now is left to the next call.
func (d *DB) Maintain(ctx context.Context) error { return d.conn.Maintain(ctx) }

// Shrink returns the space of deleted rows to the system. It is a write.
func (d *DB) Shrink(tx *gorm.DB) error { return d.conn.Shrink(tx) }

// Verify returns the problems that the database finds in itself; with full it compares indexes with their tables. A server returns
// none.
func (d *DB) Verify(ctx context.Context, full bool) ([]string, error) {
	found, err := d.conn.Verify(ctx, full)
	return found, d.explain("read", err)
}

// Reindex rebuilds the indexes. It is a write.
func (d *DB) Reindex(tx *gorm.DB) error { return d.conn.Reindex(tx) }

// Close waits for the current write and closes all connections. Further calls do nothing.
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

// Salvager is implemented by drivers whose databases are files that can be damaged.
type Salvager interface {
	// SetAside renames a database that no process uses, and returns its new source.
	SetAside(ctx context.Context, source string) (string, error)
	// ReadDamaged passes a connection for reading what is left of a database. Any query may fail.
	ReadDamaged(ctx context.Context, source string, read func(g *gorm.DB) error) error
}
