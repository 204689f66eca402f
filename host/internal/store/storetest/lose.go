package storetest

import (
	"database/sql"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// Lose removes one event of a thread behind the store's back, as a damaged disk does.
func Lose(tb testing.TB, cfg store.Config, thread event.ThreadID, seq uint64) {
	tb.Helper()
	driver, source, query := "sqlite", cfg.Path, "DELETE FROM events WHERE thread_id = ? AND seq = ?"
	if cfg.Database.Driver != nil {
		driver, source, query = "pgx", cfg.Database.Source, "DELETE FROM events WHERE thread_id = $1 AND seq = $2"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query, string(thread), seq); err != nil {
		tb.Fatal(err)
	}
}
