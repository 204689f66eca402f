package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"go.uber.org/goleak"
	"gorm.io/gorm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(path string) database.Config {
	return database.Config{Driver: Driver{}, Source: path, Migrations: []database.Migration{
		{Name: "numbers", SQL: []string{"CREATE TABLE numbers (n INTEGER)", "INSERT INTO numbers VALUES (1)"}},
	}}
}

func open(t *testing.T, path string) *database.DB {
	t.Helper()
	d, err := database.Open(t.Context(), config(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// connect opens a file that has its schema, past [database.Open].
func connect(t *testing.T, path string) *conn {
	t.Helper()
	_ = open(t, path).Close()
	c, err := Driver{}.Connect(t.Context(), database.Config{Source: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*conn)
}

func numbers(t *testing.T, d *database.DB) string {
	t.Helper()
	g, err := d.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n []int
	if err := g.Raw("SELECT n FROM numbers ORDER BY n").Scan(&n).Error; err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(n)
}

func insert(n int) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error { return tx.Exec("INSERT INTO numbers VALUES (?)", n).Error }
}

func TestWhatIsNotADatabaseOfGantry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	d, err := database.Open(t.Context(), database.Config{Driver: Driver{}, Source: foreign})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), database.Full, func(tx *gorm.DB) error { return tx.Exec("CREATE TABLE theirs (x)").Error }); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	negative := filepath.Join(dir, "negative.db")
	if err := os.WriteFile(negative, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err = database.Open(t.Context(), database.Config{Driver: Driver{}, Source: negative})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), database.Full, func(tx *gorm.DB) error { return tx.Exec("PRAGMA user_version(-1)").Error }); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		text:                             "not a database",
		foreign:                          "tables that are not gantry's",
		negative:                         "schema version -1",
		dir:                              "not a regular file",
		filepath.Join(file, "x.db"):      "GANTRY_HOME",
		filepath.Join(file, "y", "x.db"): "GANTRY_HOME",
	} {
		_, err := database.Open(t.Context(), config(path))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "next: ") {
			t.Errorf("%s: %v, want %q and what to do", path, err, want)
		}
	}
	if b, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(b), "not a database ") {
		t.Errorf("the text was changed: %q, %v", b[:20], err)
	}
}

func TestSQLiteVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.53.2": true, "3.51.3": true, "3.52.0": true, "4.0.0": true,
		"3.51.2": false, "3.41.2": false, "3.9.9": false, "2.99.99": false, "": false, "three": false,
	} {
		if got := atLeast(version, minSQLite); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
	c := connect(t, filepath.Join(t.TempDir(), "x.db"))
	if err := checkVersion(t.Context(), c.main); err != nil {
		t.Errorf("what is built in: %v", err)
	}
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	c := connect(t, filepath.Join(t.TempDir(), "x.db"))
	get := func(pragma string) string {
		var v string
		if err := c.gorm.Raw("PRAGMA " + pragma).Scan(&v).Error; err != nil {
			t.Error(err)
		}
		return v
	}
	write := func(full bool) {
		t.Helper()
		if err := c.Try(t.Context(), database.TxOptions{Full: full}, insert(1)); err != nil {
			t.Fatal(err)
		}
	}
	write(false)
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "1", "auto_vacuum": "2", "busy_timeout": "0",
		"wal_autocheckpoint": "16384", "journal_size_limit": "16777216",
	} {
		if got := get(pragma); got != want {
			t.Errorf("%s = %s, want %s", pragma, got, want)
		}
	}
	write(true)
	if got := get("synchronous"); got != "2" {
		t.Errorf("after a full write: synchronous = %s", got)
	}
	write(false)
	if got := get("synchronous"); got != "1" {
		t.Errorf("after a normal write: synchronous = %s", got)
	}
}

func TestOpeningAnExistingDatabaseWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	_ = open(t, path).Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, path)
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	if got := numbers(t, d); got != "[1]" {
		t.Errorf("%s", got)
	}
	_ = d.Close()
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed: %d bytes, then %d, %v", len(before), len(after), err)
	}
}

func TestTendingLetsTheLogBeginAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	d, other := open(t, path), open(t, path)
	if err := d.Write(t.Context(), database.Normal, func(tx *gorm.DB) error { return tx.Exec("CREATE TABLE blobs (b BLOB)").Error }); err != nil {
		t.Fatal(err)
	}
	blob := func(tx *gorm.DB) error { return tx.Exec("INSERT INTO blobs VALUES (zeroblob(1048576))").Error }
	// One writes and checkpoints, the other writes all the time, so that the log is never done by itself.
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if err := other.Write(t.Context(), database.Normal, insert(n)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 40 { // 40 MiB
		if err := errors.Join(d.Write(t.Context(), database.Normal, blob), d.Maintain(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() > 4*checkpointBytes {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() < 30<<20 {
		t.Errorf("the database has %d bytes, %v", info.Size(), err)
	}
	g, _ := d.Read(t.Context())
	if err := g.Exec("INSERT INTO numbers VALUES (1)").Error; err == nil {
		t.Error("after a checkpoint a connection for reading writes")
	}
	// A reader in the way costs a moment and not the checkpoint's life.
	reader, err := other.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Transaction(func(tx *gorm.DB) error {
		var n int
		if err := tx.Raw("SELECT count(*) FROM numbers").Scan(&n).Error; err != nil {
			return err
		}
		for range 6 {
			if err := d.Write(t.Context(), database.Normal, blob); err != nil {
				return err
			}
		}
		return d.Maintain(t.Context())
	})
	if err != nil {
		t.Error(err)
	}
}
