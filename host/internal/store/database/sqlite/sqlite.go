// Package sqlite is the driver for SQLite: the database is a private file with a write-ahead log, shared by the processes of one
// machine.
//
// It owns: the file and its modes, the connections and their pragmas, the check of SQLite's version, its log, what its
// errors mean. It must not know: which tables exist, when a write is tried again.
//
// Start with [Driver].
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// minSQLite is the first version without the WAL-reset corruption of versions up to 3.51.2.
	minSQLite = "3.51.3"

	// checkpointBytes is the size of the write-ahead log at which [conn.Maintain] starts a checkpoint. SQLite would do so at the
	// same size, but inside a commit.
	checkpointBytes = 4 << 20

	// hardCheckpointPages is the size of the log at which SQLite does a checkpoint inside a commit after all, if Maintain never
	// succeeds: 64 MiB in pages of 4 KiB.
	hardCheckpointPages = 16384

	// restartWait is how long a checkpoint waits for a moment without a writer or an old reader. It blocks neither.
	restartWait = 100 * time.Millisecond

	// readConnections limits the connections for reading: one each for a listing and a resume, and one to spare.
	readConnections = 3
)

// Driver opens files; [database.Config].Source is the path, whose folder is created if missing. Opening an existing file takes well
// under a millisecond.
type Driver struct{}

// Name implements [database.Driver].
func (Driver) Name() string { return "sqlite" }

// conn is an open file.
type conn struct {
	path     string
	busyWait time.Duration
	pool     *sql.DB   // for writing; one connection
	main     *sql.Conn // that connection
	gorm     *gorm.DB
	full     bool         // whether synchronous is set to FULL; used only by Try
	queue    *flock.Queue // of the processes that write; nil: no order
	inUse    io.Closer    // keeps [Driver.SetAside] from renaming the file; nil: it can't be locked
	only     string       // additional parameters of connection strings for a read-only database

	reads struct {
		sync.Mutex
		pool   *sql.DB
		gorm   *gorm.DB
		closed bool
	}
}

// Connect implements [database.Driver].
func (Driver) Connect(ctx context.Context, cfg database.Config) (database.Conn, error) {
	path, err := filepath.Abs(cfg.Source)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", cfg.Source, err)
	}
	if cfg.ReadOnly {
		return connectReadOnly(ctx, path, cfg.BusyWait)
	}
	inUse, _ := flock.Share(inUseFile(path), true) // where it can't be created, the database can't be renamed either
	fresh, err := prepareFile(path)
	if err != nil {
		if inUse != nil {
			err = errors.Join(err, inUse.Close())
		}
		return nil, err
	}
	c := &conn{path: path, busyWait: cfg.BusyWait, inUse: inUse}
	c.queue, _ = flock.OpenQueue(path) // where it can't be created, a write will say so
	if err := c.connect(ctx, fresh); err != nil {
		return nil, errors.Join(database.Explain(c, "open", err), c.Close())
	}
	return c, nil
}

// prepareFile creates the folder and the file if necessary, and makes the file private. SQLite creates its additional files with the
// mode of the database. fresh reports whether the file is empty.
func prepareFile(path string) (fresh bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, hint.With(fmt.Errorf("open database %s: %w", path, err), "make that folder writable, or set GANTRY_HOME to another one")
	}
	// O_EXCL: an existing file must not be opened here, since closing it would drop the locks that another connection of
	// this process holds on it.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		return true, f.Close()
	case !errors.Is(err, fs.ErrExist):
		return false, hint.With(fmt.Errorf("open database %s: %w", path, err), "make that folder writable, or set GANTRY_HOME to another one")
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("open database %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return false, hint.With(fmt.Errorf("open database %s: it is not a regular file", path), "move it away")
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		for _, p := range []string{path, path + "-wal", path + "-shm"} {
			if err := os.Chmod(p, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, hint.With(fmt.Errorf("open database %s: it is readable by others, and that can't be changed: %w", path, err), fmt.Sprintf("chmod 600 %s", p))
			}
		}
	}
	return info.Size() == 0, nil
}

// dsn returns the driver's connection string. begin is the lock with which transactions begin.
func dsn(path, begin string, pragmas ...string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // C:/... becomes file:///C:/...
	}
	q := url.Values{"_txlock": {begin}}
	for _, pragma := range pragmas {
		q.Add("_pragma", pragma)
	}
	return "file://" + (&url.URL{Path: p}).EscapedPath() + "?" + q.Encode()
}

func (c *conn) connect(ctx context.Context, fresh bool) error {
	pragmas := []string{fmt.Sprintf("busy_timeout(%d)", c.busyWait.Milliseconds()), "synchronous(normal)"}
	if fresh {
		// This pragma is only effective before the first table, and on an existing database it would write and sync each time.
		pragmas = append(pragmas, "auto_vacuum(incremental)")
	}
	pragmas = append(pragmas,
		"journal_mode(wal)",
		fmt.Sprintf("wal_autocheckpoint(%d)", hardCheckpointPages),
		"journal_size_limit(16777216)",
		"busy_timeout(0)", // from here on, database.DB waits and tries again
	)
	var err error
	c.pool, err = sql.Open(sqlite.DriverName, dsn(c.path, "immediate", pragmas...))
	if err != nil {
		return err
	}
	c.pool.SetMaxOpenConns(1)
	if c.main, err = c.pool.Conn(ctx); err != nil {
		return err
	}
	if err := checkVersion(ctx, c.main); err != nil {
		return err
	}
	c.gorm, err = openGorm(c.main)
	return err
}

func checkVersion(ctx context.Context, conn *sql.Conn) error {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		return err
	}
	if !atLeast(version, minSQLite) {
		return hint.With(fmt.Errorf("this program was built with SQLite %s, which can corrupt a shared database", version),
			fmt.Sprintf("build it with modernc.org/sqlite v1.53.0 or newer (SQLite %s or newer)", minSQLite))
	}
	return nil
}

// atLeast compares dotted versions.
func atLeast(version, least string) bool {
	var v, l [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); n != 3 {
		return false
	}
	if n, _ := fmt.Sscanf(least, "%d.%d.%d", &l[0], &l[1], &l[2]); n != 3 {
		return false
	}
	for i := range v {
		if v[i] != l[i] {
			return v[i] > l[i]
		}
	}
	return true
}

func openGorm(pool gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(sqlite.Dialector{Conn: pool}, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // errors are returned, and statements hold content
	})
}

// Where implements [database.Conn].
func (c *conn) Where() string { return c.path }

// Alternative implements [database.Conn].
func (c *conn) Alternative() string { return "set GANTRY_HOME to another folder" }

// About implements [database.Conn].
func (c *conn) About(context.Context) (string, error) {
	size := int64(0)
	if info, err := os.Stat(c.path); err == nil {
		size = info.Size()
	}
	return fmt.Sprintf("SQLite %s, %d KiB", sqlite3.SQLITE_VERSION, (size+1023)/1024), nil
}

// Locks implements [database.Conn]. It returns nil, because locked files are used instead.
func (c *conn) Locks() database.Locks { return nil }

// Main implements [database.Conn].
func (c *conn) Main() *gorm.DB { return c.gorm }

// Durable implements [database.Conn].
func (c *conn) Durable() bool { return false }

// Read implements [database.Conn].
func (c *conn) Read() (*gorm.DB, error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	if c.reads.closed {
		return nil, database.ErrClosed
	}
	if c.reads.gorm == nil {
		pool, err := sql.Open(sqlite.DriverName, dsn(c.path, "deferred",
			fmt.Sprintf("busy_timeout(%d)", c.busyWait.Milliseconds()), "query_only(1)")+c.only)
		if err != nil {
			return nil, err
		}
		pool.SetMaxOpenConns(readConnections)
		g, err := openGorm(pool)
		if err != nil {
			return nil, errors.Join(err, pool.Close())
		}
		c.reads.pool, c.reads.gorm = pool, g
	}
	return c.reads.gorm, nil
}

// Close implements [database.Conn].
func (c *conn) Close() error {
	c.reads.Lock()
	pool := c.reads.pool
	c.reads.pool, c.reads.gorm, c.reads.closed = nil, nil, true
	c.reads.Unlock()
	var errs []error
	if pool != nil {
		errs = append(errs, pool.Close())
	}
	if c.queue != nil {
		errs = append(errs, c.queue.Close())
	}
	if c.main != nil {
		errs = append(errs, c.main.Close())
	}
	if c.pool != nil {
		errs = append(errs, c.pool.Close())
	}
	if c.inUse != nil {
		errs = append(errs, c.inUse.Close())
	}
	return errors.Join(errs...)
}
