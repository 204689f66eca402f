package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	_ "github.com/glebarez/go-sqlite" // looks at the database past the store
	"github.com/jackc/pgx/v5/stdlib"
)

// onServer reports whether the tests run on PostgreSQL.
func onServer() bool { return os.Getenv(postgrestest.AddressVar) != "" }

// TestOnPostgreSQL runs all other tests of this package on a server.
func TestOnPostgreSQL(t *testing.T) { postgrestest.Rerun(t) }

// filesOnly skips a test of SQLite's files when the tests run on PostgreSQL.
func filesOnly(t *testing.T) {
	t.Helper()
	if onServer() {
		t.Skip("it is about files of SQLite")
	}
}

// dump returns the rows of a query as text.
func dump(tb testing.TB, db *sql.DB, query string, args ...any) []string {
	tb.Helper()
	if _, server := db.Driver().(*stdlib.Driver); server {
		for n := 1; strings.Contains(query, "?"); n++ {
			query = strings.Replace(query, "?", "$"+strconv.Itoa(n), 1)
		}
	}
	rows, err := db.Query(query, args...)
	if err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		tb.Fatal(err)
	}
	out := []string{}
	for rows.Next() {
		values := make([]any, len(columns))
		pointers := make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			tb.Fatal(err)
		}
		out = append(out, fmt.Sprint(values))
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return out
}

// hold keeps everybody else from writing until release.
func hold(t *testing.T, cfg store.Config) (release func()) {
	t.Helper()
	cfg.WrapCommit, cfg.OnDegraded = nil, nil
	other := openAt(t, cfg)
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // owned by this test: release waits for it
		done <- other.Hold(context.Background(), func() { close(held); <-free })
	}()
	select {
	case <-held:
	case err := <-done:
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}
