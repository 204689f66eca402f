package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
)

// inUseFile is the file that every connection to a database shares, and who renames the database has exclusively.
func inUseFile(path string) string { return path + "-open" }

// setAsideWait is how long SetAside waits for other processes to close the database. Those that find it damaged do so at once.
const setAsideWait = 3 * time.Second

// SetAside implements [database.Salvager]. A process that has the old file open would use the log of the new one, so there must be none.
func (Driver) SetAside(ctx context.Context, source string) (aside string, err error) {
	waiting, cancel := context.WithTimeout(ctx, setAsideWait)
	defer cancel()
	err = flock.With(waiting, inUseFile(source), true, func() error {
		aside, err = setAside(source)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = hint.With(fmt.Errorf("set aside %s: other processes use it", source), "end the other gantry processes with this home")
	}
	return aside, err
}

// setAside renames a database and its log. The log comes first: without its database it is kept, but the other way round SQLite would
// delete it.
func setAside(source string) (string, error) {
	aside := source + ".damaged-" + time.Now().UTC().Format("20060102T150405")
	for n, name := 2, aside; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			aside = name
			break
		} else if err != nil {
			return "", fmt.Errorf("set aside %s: %w", source, err)
		}
		name = fmt.Sprintf("%s-%d", aside, n)
	}
	if err := os.Rename(source+"-wal", aside+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("set aside the log of %s: %w", source, err)
	}
	if err := os.Remove(source + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("set aside %s: %w", source, err)
	}
	if err := os.Rename(source, aside); err != nil {
		return "", fmt.Errorf("set aside %s: %w", source, err)
	}
	return aside, nil
}

// ReadDamaged implements [database.Salvager]. With writable_schema, SQLite reads a file that is shorter than its header says.
func (Driver) ReadDamaged(ctx context.Context, source string, read func(g *gorm.DB) error) (err error) {
	only := "&mode=ro"
	if log, statErr := os.Stat(source + "-wal"); statErr != nil || log.Size() == 0 {
		only += "&immutable=1"
	}
	pool, err := sql.Open(sqlite.DriverName, dsn(source, "deferred", "writable_schema(1)", "query_only(1)")+only)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	g, err := openGorm(pool)
	if err != nil {
		return err
	}
	return read(g.WithContext(ctx))
}
