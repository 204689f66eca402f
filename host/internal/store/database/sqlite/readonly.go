package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
)

// connectReadOnly opens a file without creating or changing any file. SQLite reads a database with a write-ahead log only if the log
// and its index exist or can be created. If there is no log, all commits are in the database itself, which can be read as immutable.
func connectReadOnly(ctx context.Context, path string, busyWait time.Duration) (database.Conn, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, hint.With(fmt.Errorf("open database %s: it is not a regular file", path), "move it away")
	}
	inUse, _ := flock.Share(inUseFile(path), false)
	c := &conn{path: path, busyWait: busyWait, only: "&mode=ro", inUse: inUse}
	err = c.looks(ctx)
	if log, statErr := os.Stat(path + "-wal"); err != nil && (statErr != nil || log.Size() == 0) {
		c.inUse = nil
		err = c.Close()
		c = &conn{path: path, busyWait: busyWait, only: "&mode=ro&immutable=1", inUse: inUse}
		err = errors.Join(err, c.looks(ctx))
	}
	if err != nil {
		return nil, errors.Join(database.Explain(c, "open", err), c.Close())
	}
	return c, nil
}

// looks checks that the database can be read: connections are only opened when they are used.
func (c *conn) looks(ctx context.Context) error {
	g, err := c.Read()
	if err != nil {
		return err
	}
	_, err = c.SchemaVersion(g.WithContext(ctx))
	return err
}
