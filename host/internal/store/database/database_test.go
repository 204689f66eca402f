package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorm.io/gorm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func migrations(n int) []Migration {
	all := []Migration{
		{Name: "numbers", SQL: []string{"CREATE TABLE numbers (n INTEGER)", "INSERT INTO numbers VALUES (1)"}},
		{Name: "two", SQL: []string{"INSERT INTO numbers VALUES (2)"}},
		{Name: "three", SQL: []string{"INSERT INTO numbers VALUES (3)"}},
	}
	return all[:n]
}

func open(t *testing.T, path string, version int) *DB {
	t.Helper()
	d, err := Open(t.Context(), Config{Path: path, Migrations: migrations(version), HostVersion: fmt.Sprint("0.", version)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func numbers(t *testing.T, d *DB) string {
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

func TestMigrationsRunOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a folder", "100% sure?", "x#y.db")
	for _, step := range []struct {
		version int
		want    string
	}{{1, "[1]"}, {3, "[1 2 3]"}, {3, "[1 2 3]"}} {
		d := open(t, path, step.version)
		if got := numbers(t, d); got != step.want {
			t.Errorf("version %d: %s, want %s", step.version, got, step.want)
		}
		_ = d.Close()
	}
	d := open(t, path, 3)
	g, _ := d.Read(t.Context())
	var rows []migrationRow
	if err := g.Order("version").Find(&rows).Error; err != nil || len(rows) != 3 || rows[0].HostVersion != "0.1" ||
		rows[2].HostVersion != "0.3" || rows[2].Name != "three" || rows[2].AppliedAt == 0 {
		t.Errorf("migrations = %+v, %v", rows, err)
	}
}

func TestAnOlderProgramStops(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	_ = open(t, path, 3).Close()
	_, err := Open(t.Context(), Config{Path: path, Migrations: migrations(2), HostVersion: "0.2"})
	newer, ok := errors.AsType[*NewerError](err)
	if !ok || newer.Have != 3 || newer.Know != 2 || newer.WrittenBy != "0.3" {
		t.Fatalf("%v", err)
	}
	want := "open database " + path + ": it has schema version 3, written by gantry 0.3, and this gantry (0.2) knows versions " +
		"up to 2; next: update gantry, or set GANTRY_HOME to another folder"
	if err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	d := open(t, path, 3)
	if got := numbers(t, d); got != "[1 2 3]" {
		t.Errorf("it left %s", got)
	}

	// Also when the newer one comes between the look and the transaction.
	d.cfg.Migrations = migrations(2)
	if err := d.Write(t.Context(), Full, d.upgrade); !errors.As(err, new(*NewerError)) {
		t.Errorf("in the transaction: %v", err)
	}
	if version, err := schemaVersion(d.gorm); version != 3 || err != nil {
		t.Errorf("schema version %d is left, %v", version, err)
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	_ = open(t, path, 1).Close()
	bad := append(migrations(2), Migration{Name: "broken", SQL: []string{"INSERT INTO numbers VALUES (9)", "NONSENSE"}})
	_, err := Open(t.Context(), Config{Path: path, Migrations: bad})
	if err == nil || !strings.Contains(err.Error(), `to schema version 3 (broken)`) {
		t.Errorf("%v", err)
	}
	d := open(t, path, 1)
	if got := numbers(t, d); got != "[1]" {
		t.Errorf("it left %s", got)
	}
}

func TestProgramsThatMigrateAtTheSameTime(t *testing.T) {
	t.Parallel()
	for range 20 {
		path := filepath.Join(t.TempDir(), "x.db")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				d, err := Open(t.Context(), Config{Path: path, Migrations: migrations(3)})
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := numbers(t, open(t, path, 3)); got != "[1 2 3]" {
			t.Errorf("%s", got)
		}
	}
}

func TestWhatIsNotADatabaseOfGantry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	d, err := Open(t.Context(), Config{Path: foreign})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), Full, func(tx *gorm.DB) error { return tx.Exec("CREATE TABLE theirs (x)").Error }); err != nil {
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
		dir:                              "not a regular file",
		filepath.Join(file, "x.db"):      "GANTRY_HOME",
		filepath.Join(file, "y", "x.db"): "GANTRY_HOME",
	} {
		_, err := Open(t.Context(), Config{Path: path, Migrations: migrations(1)})
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
	d := open(t, filepath.Join(t.TempDir(), "x.db"), 1)
	if err := checkVersion(t.Context(), d.conn); err != nil {
		t.Errorf("what is built in: %v", err)
	}
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "x.db"), 1)
	get := func(g *gorm.DB, pragma string) string {
		var v string
		if err := g.Raw("PRAGMA " + pragma).Scan(&v).Error; err != nil {
			t.Error(err)
		}
		return v
	}
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "1", "auto_vacuum": "2", "busy_timeout": "0",
		"wal_autocheckpoint": "16384", "journal_size_limit": "16777216",
	} {
		if pragma == "synchronous" {
			_ = d.Write(t.Context(), Normal, insert(1))
		}
		if got := get(d.gorm, pragma); got != want {
			t.Errorf("%s = %s, want %s", pragma, got, want)
		}
	}
	if err := d.Write(t.Context(), Full, insert(1)); err != nil {
		t.Fatal(err)
	}
	if got := get(d.gorm, "synchronous"); got != "2" {
		t.Errorf("after a full write: synchronous = %s", got)
	}
	g, err := d.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Exec("INSERT INTO numbers VALUES (1)").Error; err == nil {
		t.Error("a connection for reading writes")
	}
}

func TestOpeningAnExistingDatabaseWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	_ = open(t, path, 1).Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, path, 1)
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

func TestWriteRollsBack(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "x.db"), 1)
	no := errors.New("no")
	err := d.Write(t.Context(), Normal, func(tx *gorm.DB) error { return errors.Join(insert(5)(tx), no) })
	if !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is swallowed")
			}
		}()
		_ = d.Write(t.Context(), Normal, func(tx *gorm.DB) error { _ = insert(6)(tx); panic("boom") })
	}()
	if err := d.Write(t.Context(), Normal, insert(7)); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	if got := numbers(t, d); got != "[1 7]" {
		t.Errorf("%s", got)
	}
}

func TestWriteIsRunAgainWhenAnotherIsInTheWay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	d, other := open(t, path, 1), open(t, path, 1)
	in, out := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() { // owned by this test, which reads done
		done <- other.Write(context.Background(), Normal, func(tx *gorm.DB) error {
			close(in)
			<-out
			return insert(2)(tx)
		})
	}()
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.Write(ctx, Normal, insert(3)); !IsBusy(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its context has ended: %v", err)
	}
	d.cfg.BusyWait = 10 * time.Millisecond
	err := d.Write(t.Context(), Normal, insert(3))
	if e, ok := errors.AsType[*Error](err); !ok || !IsBusy(err) || e.Op != "write" || e.Path != path || e.Next == "" {
		t.Errorf("it has waited: %v", err)
	}
	d.cfg.BusyWait = time.Minute
	time.AfterFunc(20*time.Millisecond, func() { close(out) })
	if err := d.Write(t.Context(), Full, insert(3)); err != nil {
		t.Errorf("%v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := numbers(t, d); got != "[1 2 3]" {
		t.Errorf("%s", got)
	}
}

func TestCheckpointLetsTheLogBeginAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	d, other := open(t, path, 1), open(t, path, 1)
	if err := d.Write(t.Context(), Normal, func(tx *gorm.DB) error { return tx.Exec("CREATE TABLE blobs (b BLOB)").Error }); err != nil {
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
			if err := other.Write(t.Context(), Normal, insert(n)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 40 { // 40 MiB
		if err := errors.Join(d.Write(t.Context(), Normal, blob), d.Checkpoint(t.Context())); err != nil {
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
			if err := d.Write(t.Context(), Normal, blob); err != nil {
				return err
			}
		}
		return d.Checkpoint(t.Context())
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAClosedDatabase(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "x.db"), 1)
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), Normal, insert(1)); err == nil {
		t.Error("Write has no error")
	}
	if _, err := d.Read(t.Context()); err == nil {
		t.Error("Read has no error")
	}
}
