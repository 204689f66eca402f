// Package postgres is the driver for PostgreSQL: the database is on a server, and hosts on several machines can share it.
//
// It owns: the connections, which are opened again when they break; transactions, and which of them run concurrently; locks that
// end with their process; the meaning of the server's errors. It must not know: which tables a store has, when a write is tried again.
//
// Start with [Driver].
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const (
	// minVersion is the oldest version that the PostgreSQL project supports.
	minVersion = 140000

	// connectTimeout is the default if the address has none. A reachable server responds within milliseconds.
	connectTimeout = 5 * time.Second

	// keepAlive is the approximate time after which a dead connection is detected, on both sides.
	keepAlive = 15 * time.Second

	// writeConnections are one connection for the store's writes, and one for locks.
	writeConnections = 2

	// readConnections limits the connections for reading: one each for a listing and a resume, and one to spare.
	readConnections = 3

	// idleTime is how long a connection for reading is kept for the next listing.
	idleTime = time.Minute
)

// Driver connects to servers; [database.Config].Source is a URL, or settings like host=... dbname=... The environment variables of
// psql, such as PGHOST, supply missing settings.
type Driver struct{}

// Name implements [database.Driver].
func (Driver) Name() string { return "postgres" }

// conn is a database on a server.
type conn struct {
	where    string
	schema   string // part of the names of the store's tables
	busyWait time.Duration
	writes   *sql.DB
	reads    *sql.DB
	main     *gorm.DB // on writes
	reader   *gorm.DB // on reads
	key      int64    // of the lock that writes take; fixed after Connect
	locks    *locks
	closed   atomic.Bool
}

// Connect implements [database.Driver].
func (Driver) Connect(ctx context.Context, cfg database.Config) (database.Conn, error) {
	to, err := pgx.ParseConfig(cfg.Source)
	if err != nil || ambiguous(cfg.Source) {
		// The parser's error is not shown, because it can contain part of a password.
		return nil, hint.New("open database: its address is neither a URL nor a list of settings like host=... dbname=..., or it contains an "+"invalid setting",
			`use an address like "postgres://gantry@db.example.com/gantry"; in a URL's password @ is %40, / is %2F, ? is %3F`)
	}
	if to.ConnectTimeout == 0 {
		to.ConnectTimeout = connectTimeout
	}
	to.DialFunc = (&net.Dialer{Timeout: to.ConnectTimeout, KeepAlive: keepAlive}).DialContext
	if to.RuntimeParams["application_name"] == "" {
		to.RuntimeParams["application_name"] = "gantry"
	}
	c := &conn{where: whereOf(to), schema: cfg.Schema, busyWait: cfg.BusyWait}

	c.writes = stdlib.OpenDB(*to, stdlib.OptionAfterConnect(setUp))
	c.writes.SetMaxOpenConns(writeConnections)
	c.writes.SetMaxIdleConns(writeConnections)
	reading := to.Copy()
	reading.RuntimeParams["default_transaction_read_only"] = "on"
	c.reads = stdlib.OpenDB(*reading)
	c.reads.SetMaxOpenConns(readConnections)
	c.reads.SetConnMaxIdleTime(idleTime)
	c.main, err = openGorm(pool{c.writes})
	if err == nil {
		c.reader, err = openGorm(pool{c.reads})
	}
	var place string
	if err == nil {
		place, err = look(ctx, c.writes)
	}
	if err != nil {
		return nil, errors.Join(database.Explain(c, "open", err), c.Close())
	}
	c.key = hash(place, cfg.Schema)
	c.locks = newLocks(c, place, to)
	return c, nil
}

// ambiguous reports whether a part of the password in a URL may be parsed as the name of the server or the database, which are shown.
// That is the case if the URL has an unexpected "@".
func ambiguous(address string) bool {
	_, rest, url := strings.Cut(address, "://")
	if !url || strings.ContainsAny(address[:len(address)-len(rest)], " =") {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	return strings.Count(rest, "@") != strings.Count(authority, "@") || strings.Count(authority, "@") > 1
}

// whereOf returns a description of a database without secrets.
func whereOf(to *pgx.ConnConfig) string {
	host := to.Host
	if !strings.HasPrefix(host, "/") { // a folder of sockets
		host = net.JoinHostPort(host, strconv.Itoa(int(to.Port)))
	}
	where := cmp.Or(to.Database, to.User) + " on " + host
	if path := to.RuntimeParams["search_path"]; path != "" {
		where += " (" + path + ")"
	}
	return where
}

// setUp prepares a connection for writing. Commits wait for the disk even if the server's default is not to: a crash of the server must
// not lose commits.
func setUp(ctx context.Context, c *pgx.Conn) error {
	var commit string
	err := c.QueryRow(ctx, "SELECT current_setting('synchronous_commit')", pgx.QueryExecModeSimpleProtocol).Scan(&commit)
	if err == nil && commit == "off" {
		_, err = c.Exec(ctx, "SET synchronous_commit = on")
	}
	return err
}

// look checks the version of the server, and returns the schema for the tables.
func look(ctx context.Context, db *sql.DB) (place string, err error) {
	var version int
	var schema sql.NullString
	err = db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int, current_schema()").Scan(&version, &schema)
	switch {
	case err != nil:
		return "", plain(err)
	case version < minVersion:
		return "", &refusedError{
			fmt.Sprintf("its server is PostgreSQL %d", version/10000), fmt.Sprintf("use one of version %d or newer", minVersion/10000),
		}
	case !schema.Valid:
		return "", &refusedError{"the schema in search_path does not exist", "create it: CREATE SCHEMA NAME"}
	}
	return schema.String, nil
}

// refusedError says why a database can't be used.
type refusedError struct{ what, next string }

func (e *refusedError) Error() string { return e.what }

// hash returns the number of an advisory lock. All programs that use the database share the space of 64-bit numbers.
func hash(parts ...string) int64 {
	h := fnv.New64a()
	for _, p := range append([]string{"gantry"}, parts...) {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return int64(h.Sum64())
}

func openGorm(p gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: p}), &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // errors are returned, and statements hold content
	})
}

// Where implements [database.Conn].
func (c *conn) Where() string { return c.where }

// Alternative implements [database.Conn].
func (c *conn) Alternative() string { return "name another database in `store { dsn = ... }`" }

// About implements [database.Conn].
func (c *conn) About(ctx context.Context) (string, error) {
	var version string
	if err := c.reads.QueryRowContext(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", database.Explain(c, "read", err)
	}
	version, _, _ = strings.Cut(version, " ")
	return fmt.Sprintf("PostgreSQL %s, %s", version, c.where), nil
}

// Main implements [database.Conn].
func (c *conn) Main() *gorm.DB { return c.main }

// Durable implements [database.Conn].
func (c *conn) Durable() bool { return true }

// Read implements [database.Conn].
func (c *conn) Read() (*gorm.DB, error) {
	if c.closed.Load() {
		return nil, database.ErrClosed
	}
	return c.reader, nil
}

// Locks implements [database.Conn].
func (c *conn) Locks() database.Locks { return c.locks }

// Maintain implements [database.Conn]. It does nothing, since the server maintains itself.
func (c *conn) Maintain(context.Context) error { return nil }

// Shrink implements [database.Conn]. It does nothing, since the server has autovacuum.
func (c *conn) Shrink(*gorm.DB) error { return nil }

// Close implements [database.Conn].
func (c *conn) Close() error {
	c.closed.Store(true)
	if c.locks != nil {
		c.locks.close()
	}
	return errors.Join(c.reads.Close(), c.writes.Close())
}
