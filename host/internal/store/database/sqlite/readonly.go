package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

// connectReadOnly opens a file without making or changing one. SQLite reads a database with a write-ahead log only where the
// log and its index are there or can be made. Where there is no log, all that was committed is in the database itself,
// and it can be read as one that nobody changes.
func connectReadOnly(ctx context.Context, path string, busyWait time.Duration) (database.Conn, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, hint.With(fmt.Errorf("open database %s: it is not a regular file", path), "move it away")
	}
	c := &conn{path: path, busyWait: busyWait, only: "&mode=ro"}
	err = c.looks(ctx)
	if log, statErr := os.Stat(path + "-wal"); err != nil && (statErr != nil || log.Size() == 0) {
		err = c.Close()
		c = &conn{path: path, busyWait: busyWait, only: "&mode=ro&immutable=1"}
		err = errors.Join(err, c.looks(ctx))
	}
	if err != nil {
		return nil, errors.Join(database.Explain(c, "open", err), c.Close())
	}
	return c, nil
}

// looks reads something: connections are made when they are needed.
func (c *conn) looks(ctx context.Context) error {
	g, err := c.Read()
	if err != nil {
		return err
	}
	_, err = c.SchemaVersion(g.WithContext(ctx))
	return err
}
