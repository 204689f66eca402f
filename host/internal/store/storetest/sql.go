package storetest

import (
	"database/sql"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// SQL opens the database of a store directly. It is closed when the test ends.
func SQL(tb testing.TB, cfg store.Config) *sql.DB {
	tb.Helper()
	driver, source := "sqlite", cfg.Path
	if cfg.Database.Driver != nil {
		driver, source = "pgx", cfg.Database.Source
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// DeleteEvent deletes one event of a thread directly in the database, as a damaged disk could.
func DeleteEvent(tb testing.TB, cfg store.Config, thread event.ThreadID, seq uint64) {
	tb.Helper()
	query := "DELETE FROM events WHERE thread_id = ? AND seq = ?"
	if cfg.Database.Driver != nil {
		query = "DELETE FROM events WHERE thread_id = $1 AND seq = $2"
	}
	if _, err := SQL(tb, cfg).Exec(query, string(thread), seq); err != nil {
		tb.Fatal(err)
	}
}
