package database_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"github.com/gantry-agent/gantry/host/internal/store/database/sqlite"
	"go.uber.org/goleak"
	"gorm.io/gorm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is where a test may make one database.
type place struct {
	driver database.Driver
	source string
}

// drivers make an empty place of each kind.
var drivers = []struct {
	name  string
	place func(t *testing.T, server string) place
}{
	{"sqlite", func(t *testing.T, _ string) place {
		return place{sqlite.Driver{}, filepath.Join(t.TempDir(), "a folder", "100% sure?", "x#y.db")}
	}},
	{"postgres", func(t *testing.T, server string) place {
		return place{postgres.Driver{}, postgrestest.Place(t, server)}
	}},
}

// TestOnEachDatabase runs every test on each kind of database.
func TestOnEachDatabase(t *testing.T) {
	tests := []struct {
		name string
		test func(t *testing.T, newPlace func() place)
	}{
		{"migrations run once", testMigrationsRunOnce},
		{"an older program stops", testAnOlderProgramStops},
		{"a migration that fails changes nothing", testAMigrationThatFailsChangesNothing},
		{"an engine may have its own way to a version", testAnEngineMayHaveItsOwnWay},
		{"programs that migrate at the same time", testProgramsThatMigrateAtTheSameTime},
		{"a write rolls back", testWriteRollsBack},
		{"a write waits for another's", testWriteWaitsForAnothers},
		{"reading does not write", testReadingDoesNotWrite},
		{"a closed database", testAClosedDatabase},
	}
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) {
			server := ""
			if d.name == "postgres" {
				server = postgrestest.Start(t).Address
			}
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.test(t, func() place { return d.place(t, server) })
				})
			}
		})
	}
}

func (p place) config(migrations []database.Migration, version string) database.Config {
	return database.Config{Driver: p.driver, Source: p.source, Schema: "numbers", Migrations: migrations, HostVersion: version}
}

func migrations(n int) []database.Migration {
	all := []database.Migration{
		{Name: "numbers", SQL: []string{"CREATE TABLE numbers (n INTEGER)", "INSERT INTO numbers VALUES (1)"}},
		{Name: "two", SQL: []string{"INSERT INTO numbers VALUES (2)"}},
		{Name: "three", SQL: []string{"INSERT INTO numbers VALUES (3)"}},
	}
	return all[:n]
}

func open(t *testing.T, p place, version int) *database.DB {
	t.Helper()
	d, err := database.Open(t.Context(), p.config(migrations(version), fmt.Sprint("0.", version)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
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

func testMigrationsRunOnce(t *testing.T, newPlace func() place) {
	p := newPlace()
	for _, step := range []struct {
		version int
		want    string
	}{{1, "[1]"}, {3, "[1 2 3]"}, {3, "[1 2 3]"}} {
		d := open(t, p, step.version)
		if got := numbers(t, d); got != step.want {
			t.Errorf("version %d: %s, want %s", step.version, got, step.want)
		}
		_ = d.Close()
	}
	d := open(t, p, 3)
	g, _ := d.Read(t.Context())
	var rows []struct {
		Version     int
		Name        string
		HostVersion string
		AppliedAt   int64
	}
	if err := g.Table(d.MigrationTable()).Order("version").Find(&rows).Error; err != nil || len(rows) != 3 ||
		rows[0].HostVersion != "0.1" || rows[2].HostVersion != "0.3" || rows[2].Name != "three" || rows[2].AppliedAt == 0 {
		t.Errorf("migrations = %+v, %v", rows, err)
	}
}

func testAnOlderProgramStops(t *testing.T, newPlace func() place) {
	p := newPlace()
	newest := open(t, p, 3)
	where := newest.Where()
	_ = newest.Close()
	_, err := database.Open(t.Context(), p.config(migrations(2), "0.2"))
	newer, ok := errors.AsType[*database.NewerError](err)
	if !ok || newer.Version != 3 || newer.Supported != 2 || newer.WrittenBy != "0.3" {
		t.Fatalf("%v", err)
	}
	want := "open database " + where + ": it has schema version 3, written by gantry 0.3, and this gantry (0.2) supports " +
		"versions up to 2; next: update gantry, or " + newer.Alternative
	if err.Error() != want || newer.Alternative == "" {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	d := open(t, p, 3)
	if got := numbers(t, d); got != "[1 2 3]" {
		t.Errorf("it left %s", got)
	}

	// Also when the newer one comes between the look and the transaction.
	d.SetMigrations(migrations(2))
	if err := d.Write(t.Context(), database.Full, d.Upgrade); !errors.As(err, new(*database.NewerError)) {
		t.Errorf("in the transaction: %v", err)
	}
	if version, err := d.Version(); version != 3 || err != nil {
		t.Errorf("schema version %d is left, %v", version, err)
	}
}

func testAMigrationThatFailsChangesNothing(t *testing.T, newPlace func() place) {
	p := newPlace()
	_ = open(t, p, 1).Close()
	bad := append(migrations(2), database.Migration{Name: "broken", SQL: []string{"INSERT INTO numbers VALUES (9)", "NONSENSE"}})
	_, err := database.Open(t.Context(), p.config(bad, ""))
	if err == nil || !strings.Contains(err.Error(), `to schema version 3 (broken)`) {
		t.Errorf("%v", err)
	}
	d := open(t, p, 1)
	if got := numbers(t, d); got != "[1]" {
		t.Errorf("it left %s", got)
	}
}

func testAnEngineMayHaveItsOwnWay(t *testing.T, newPlace func() place) {
	p := newPlace()
	own := append(migrations(1), database.Migration{Name: "own", SQL: []string{"NONSENSE"}, PerDriver: map[string][]string{
		p.driver.Name(): {"INSERT INTO numbers VALUES (7)"}, "another": {"NONSENSE"},
	}})
	d, err := database.Open(t.Context(), p.config(own, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := numbers(t, d); got != "[1 7]" {
		t.Errorf("%s", got)
	}
}

func testProgramsThatMigrateAtTheSameTime(t *testing.T, newPlace func() place) {
	for range 20 {
		p := newPlace()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				d, err := database.Open(t.Context(), p.config(migrations(3), ""))
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
		if got := numbers(t, open(t, p, 3)); got != "[1 2 3]" {
			t.Errorf("%s", got)
		}
	}
}

func testWriteRollsBack(t *testing.T, newPlace func() place) {
	d := open(t, newPlace(), 1)
	no := errors.New("no")
	err := d.Write(t.Context(), database.Normal, func(tx *gorm.DB) error { return errors.Join(insert(5)(tx), no) })
	if !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is swallowed")
			}
		}()
		_ = d.Write(t.Context(), database.Normal, func(tx *gorm.DB) error { _ = insert(6)(tx); panic("boom") })
	}()
	if err := d.Write(t.Context(), database.Normal, insert(7)); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	if got := numbers(t, d); got != "[1 7]" {
		t.Errorf("%s", got)
	}
}

func testWriteWaitsForAnothers(t *testing.T, newPlace func() place) {
	p := newPlace()
	d, other := open(t, p, 1), open(t, p, 1)
	in, out := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() { // owned by this test, which reads done
		done <- other.Write(context.Background(), database.Normal, func(tx *gorm.DB) error {
			close(in)
			<-out
			return insert(2)(tx)
		})
	}()
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.Write(ctx, database.Normal, insert(3)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its context has ended: %v", err)
	}
	cfg := p.config(migrations(1), "0.1")
	cfg.BusyWait = 10 * time.Millisecond
	impatient, err := database.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(impatient.Write(t.Context(), database.Normal, insert(3)), impatient.Close())
	if e, ok := errors.AsType[*database.Error](err); !ok || !database.IsBusy(err) || e.Op != "write" || e.Where != d.Where() || e.Next == "" {
		t.Errorf("it has waited: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { close(out) })
	if err := d.Write(t.Context(), database.Full, insert(3)); err != nil {
		t.Errorf("%v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := numbers(t, d); got != "[1 2 3]" {
		t.Errorf("%s", got)
	}
}

func testReadingDoesNotWrite(t *testing.T, newPlace func() place) {
	d := open(t, newPlace(), 1)
	g, err := d.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := insert(1)(g); err == nil {
		t.Error("a connection for reading writes")
	}
}

func testAClosedDatabase(t *testing.T, newPlace func() place) {
	d := open(t, newPlace(), 1)
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), database.Normal, insert(1)); err == nil {
		t.Error("Write has no error")
	}
	if _, err := d.Read(t.Context()); err == nil {
		t.Error("Read has no error")
	}
}
