package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	_ "github.com/glebarez/go-sqlite" // looks at the database past the store
	"github.com/jackc/pgx/v5/stdlib"
)

// onServer tells whether the tests run on PostgreSQL.
func onServer() bool { return os.Getenv(postgrestest.AddressVar) != "" }

// TestOnPostgreSQL runs all other tests of this package once more, in a process of its own and on a server. By hand:
//
//	scripts/postgres run go test ./host/internal/store -run TestX
func TestOnPostgreSQL(t *testing.T) {
	if onServer() {
		t.Skip("this is it")
	}
	t.Parallel()
	address := postgrestest.Start(t).Address
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.skip=^TestOnPostgreSQL$", "-test.short=" + strconv.FormatBool(testing.Short()), "-test.count=1"}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), postgrestest.AddressVar+"="+address)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("on PostgreSQL: %v\n%s", err, out)
	}
}

// filesOnly skips a test about what is in SQLite's files.
func filesOnly(t *testing.T) {
	t.Helper()
	if onServer() {
		t.Skip("it is about files of SQLite")
	}
}

// raw opens the database past the store.
func raw(tb testing.TB, cfg store.Config) *sql.DB {
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
	cfg.Around, cfg.OnDegraded = nil, nil
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

// statePlace is where a test may keep the state of plugins.
type statePlace struct {
	path     string
	database store.Database
}

func newStatePlace(t testing.TB) statePlace {
	t.Helper()
	return statePlace{filepath.Join(t.TempDir(), "state.db"), storetest.Database(t)}
}

func openState(t testing.TB, p statePlace) *store.State {
	t.Helper()
	s, err := store.OpenState(t.Context(), p.path, p.database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
