package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/store/database"
)

// files are the names in a folder.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// A database that is only read shows what was committed, while somebody writes and when nobody has it open, and is not
// written.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	only := config(path)
	only.ReadOnly = true
	if _, err := database.Open(t.Context(), only); !errors.Is(err, fs.ErrNotExist) || files(t, dir) != "" {
		t.Errorf("one that is not there: %v; files %q", err, files(t, dir))
	}
	look := func(want string) {
		t.Helper()
		d, err := database.Open(t.Context(), only)
		if err != nil {
			t.Fatal(err)
		}
		if got := numbers(t, d); got != want {
			t.Errorf("numbers %s, want %s", got, want)
		}
		if err := d.Write(t.Context(), database.Normal, insert(3)); !errors.Is(err, database.ErrReadOnly) {
			t.Errorf("a write: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	writer := open(t, path)
	if err := writer.Write(t.Context(), database.Normal, insert(2)); err != nil {
		t.Fatal(err)
	}
	look("[1 2]")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	look("[1 2]")

	older := only
	older.Migrations = append(older.Migrations, database.Migration{Name: "more", SQL: []string{"CREATE TABLE more (n INTEGER)"}})
	if _, err := database.Open(t.Context(), older); err == nil || !strings.Contains(err.Error(), "must be upgraded to 2") {
		t.Errorf("with an older schema: %v", err)
	}
	newer := only
	newer.Migrations = nil
	_, err := database.Open(t.Context(), newer)
	if _, ok := errors.AsType[*database.NewerError](err); !ok {
		t.Errorf("with a newer schema: %v", err)
	}
}

// Where SQLite keeps to itself why it can't write, the system is asked.
func TestWhyNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone")
	if err := refused(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is gone: %v", err)
	}
	dir := t.TempDir()
	if err := refused(dir); err != nil || files(t, dir) != "" {
		t.Errorf("a folder as any other: %v; files %q", err, files(t, dir))
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no device that is always full")
	}
	defer full.Close()
	_, err = full.Write([]byte("x"))
	if why := reason(err); !isFull(why) || strings.Contains(why.Error(), "/dev/full") {
		t.Errorf("a full disk: %v", why)
	}
}
