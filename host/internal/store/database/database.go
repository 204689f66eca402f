// Package database opens an SQLite file the way every store of gantry needs it: private to its user, write-ahead logged,
// shared with other processes, at a schema version that both sides know.
//
// It owns: the file and its modes, the connections and their pragmas, the check of the SQLite version, migrations, one
// write transaction at a time, waiting for another process's write. It must not know: which tables exist, what a
// transaction is for.
//
// Start with [Open].
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const (
	// minSQLite is the first SQLite without the WAL-reset corruption that versions up to 3.51.2 have.
	minSQLite = "3.51.3"

	// DefaultBusyWait is how long a write waits for other processes. Writes take less than a millisecond, so 5 s means
	// that somebody hangs inside one; beyond it the write fails as busy.
	DefaultBusyWait = 5 * time.Second

	// checkpointBytes is the size of the write-ahead log from which [DB.Checkpoint] works: 4 MiB is what SQLite itself
	// would take, there inside of somebody's commit.
	checkpointBytes = 4 << 20

	// hardCheckpointPages makes SQLite checkpoint inside a commit after all, should Checkpoint never get through: 64 MiB
	// in pages of 4 KiB.
	hardCheckpointPages = 16384

	// restartWait is how long a checkpoint looks for a moment without a writer or an old reader. It holds up nobody.
	restartWait = 100 * time.Millisecond

	// readConnections bounds the connections for reading: a listing beside a resume, and one to spare.
	readConnections = 3
)

// Config says what to open.
type Config struct {
	Path        string        // a file; its folder is made if missing
	Migrations  []Migration   // the whole history of the schema, oldest first
	HostVersion string        // of this program, for messages
	BusyWait    time.Duration // default [DefaultBusyWait]
}

// DB is one open database. Its methods may be called from several goroutines; writes happen one after the other.
type DB struct {
	cfg   Config
	pool  *sql.DB   // for writing; one connection
	conn  *sql.Conn // that connection
	gorm  *gorm.DB
	write chan struct{} // holds one token: whoever has it writes
	full  bool          // what synchronous is set to; owned by the token's holder

	reads struct {
		sync.Mutex
		pool   *sql.DB
		gorm   *gorm.DB
		closed bool
	}
}

// Open opens or creates the database and brings its schema up to date. An existing database costs well under a
// millisecond.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if cfg.BusyWait <= 0 {
		cfg.BusyWait = DefaultBusyWait
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", cfg.Path, err)
	}
	cfg.Path = path
	fresh, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for {
		d := &DB{cfg: cfg, write: make(chan struct{}, 1)}
		d.write <- struct{}{}
		err := d.connect(ctx, fresh)
		if err == nil {
			err = d.migrate(ctx)
		}
		if err == nil {
			return d, nil
		}
		err = errors.Join(explain(path, "open", err), d.Close())
		// Of several processes that make the same file all but one are turned away at once, whatever the busy timeout is:
		// each holds what another waits for.
		if waited := time.Since(start); !isBusy(err) || waited > cfg.BusyWait || !pause(ctx, waited) {
			return nil, err
		}
	}
}

// prepareFile makes sure that folder and file exist and that only their owner can look into the file. SQLite gives its
// side files the mode of the database. A fresh file has nothing in it yet.
func prepareFile(path string) (fresh bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, fmt.Errorf("open database %s: %w; next: make that folder writable, or set GANTRY_HOME to another one", path, err)
	}
	// O_EXCL: an existing file must not be opened here, since closing it would drop the locks that another connection of
	// this process holds on it.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		return true, f.Close()
	case !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("open database %s: %w; next: make that folder writable, or set GANTRY_HOME to another one", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("open database %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("open database %s: it is not a regular file; next: move it away", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		for _, p := range []string{path, path + "-wal", path + "-shm"} {
			if err := os.Chmod(p, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, fmt.Errorf("open database %s: others can read it: %w; next: chmod 600 %s", path, err, p)
			}
		}
	}
	return info.Size() == 0, nil
}

// dsn is the driver's connection string. begin says which lock a transaction begins with.
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

func (d *DB) connect(ctx context.Context, fresh bool) error {
	pragmas := []string{fmt.Sprintf("busy_timeout(%d)", d.cfg.BusyWait.Milliseconds()), "synchronous(normal)"}
	if fresh {
		// Only before the first table, and only here: on an existing database this pragma writes and syncs each time.
		pragmas = append(pragmas, "auto_vacuum(incremental)")
	}
	pragmas = append(pragmas,
		"journal_mode(wal)",
		fmt.Sprintf("wal_autocheckpoint(%d)", hardCheckpointPages),
		"journal_size_limit(16777216)",
		"busy_timeout(0)", // from here on Write waits itself
	)
	var err error
	d.pool, err = sql.Open(sqlite.DriverName, dsn(d.cfg.Path, "immediate", pragmas...))
	if err != nil {
		return err
	}
	d.pool.SetMaxOpenConns(1)
	if d.conn, err = d.pool.Conn(ctx); err != nil {
		return err
	}
	if err := checkVersion(ctx, d.conn); err != nil {
		return err
	}
	d.gorm, err = openGorm(d.conn)
	return err
}

func checkVersion(ctx context.Context, conn *sql.Conn) error {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		return err
	}
	if !atLeast(version, minSQLite) {
		return fmt.Errorf("this program was built with SQLite %s, which can corrupt a shared database; next: build it "+
			"with modernc.org/sqlite v1.53.0 or newer (SQLite %s or newer)", version, minSQLite)
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

// Path returns the absolute path of the file.
func (d *DB) Path() string { return d.cfg.Path }

// Read returns a connection for reading only, apart from the one that writes. What it returns is not for keeping.
func (d *DB) Read(ctx context.Context) (*gorm.DB, error) {
	d.reads.Lock()
	defer d.reads.Unlock()
	if d.reads.closed {
		return nil, sql.ErrConnDone
	}
	if d.reads.gorm == nil {
		pool, err := sql.Open(sqlite.DriverName, dsn(d.cfg.Path, "deferred",
			fmt.Sprintf("busy_timeout(%d)", d.cfg.BusyWait.Milliseconds()), "query_only(1)"))
		if err != nil {
			return nil, explain(d.cfg.Path, "read", err)
		}
		pool.SetMaxOpenConns(readConnections)
		g, err := openGorm(pool)
		if err != nil {
			return nil, errors.Join(explain(d.cfg.Path, "read", err), pool.Close())
		}
		d.reads.pool, d.reads.gorm = pool, g
	}
	return d.reads.gorm.WithContext(ctx), nil
}

// Checkpoint moves the write-ahead log into the database if the log has grown large. Most of it holds up nobody. Then the
// log has to begin anew, and while one process or another always writes, that moment never comes by itself; so the rest is
// moved while writes wait, which takes as long as a few of them. If that does not work now it does the next time.
func (d *DB) Checkpoint(ctx context.Context) error {
	info, err := os.Stat(d.cfg.Path + "-wal")
	if err != nil || info.Size() < checkpointBytes {
		return nil // no log, nothing to move
	}
	g, err := d.Read(ctx)
	if err != nil {
		return err
	}
	return g.Connection(func(tx *gorm.DB) error {
		var errs []error
		try := func(statement string) {
			if err := tx.Exec(statement).Error; err != nil && !isBusy(err) {
				errs = append(errs, err)
			}
		}
		try("PRAGMA query_only(0)") // this connection is one for reading
		try("PRAGMA wal_checkpoint(PASSIVE)")
		try("PRAGMA busy_timeout(0)") // while SQLite waits for a reader it keeps writers out
		errs = append(errs, restart(ctx, tx))
		try(fmt.Sprintf("PRAGMA busy_timeout(%d)", d.cfg.BusyWait.Milliseconds()))
		try("PRAGMA query_only(1)")
		return errors.Join(errs...)
	})
}

// restart moves the rest of the log and lets the next write begin it anew, if that works within a moment.
func restart(ctx context.Context, tx *gorm.DB) error {
	start := time.Now()
	for {
		var busy, frames, moved int
		err := tx.Raw("PRAGMA wal_checkpoint(RESTART)").Row().Scan(&busy, &frames, &moved)
		waited := time.Since(start)
		if err == nil && busy == 0 || waited > restartWait {
			return nil
		}
		if err != nil && !isBusy(err) {
			return err
		}
		if !pause(ctx, waited) {
			return nil
		}
	}
}

// Close closes all connections. It waits for the write under way.
func (d *DB) Close() error {
	d.reads.Lock()
	pool := d.reads.pool
	d.reads.pool, d.reads.gorm, d.reads.closed = nil, nil, true
	d.reads.Unlock()
	var errs []error
	if pool != nil {
		errs = append(errs, pool.Close())
	}
	if _, open := <-d.write; open {
		close(d.write)
		if d.conn != nil {
			errs = append(errs, d.conn.Close())
		}
		if d.pool != nil {
			errs = append(errs, d.pool.Close())
		}
	}
	return errors.Join(errs...)
}
