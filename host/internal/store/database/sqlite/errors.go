package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	gosqlite "github.com/glebarez/go-sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Fault implements [database.Conn].
func (c *conn) Fault(err error) (database.Fault, bool) {
	if _, waited := errors.AsType[*queueError](err); waited {
		return fault(sqlite3.SQLITE_BUSY), true
	}
	e, ok := errors.AsType[*gosqlite.Error](err)
	if !ok {
		return database.Fault{}, false
	}
	f := fault(e.Code())
	if code := e.Code() & 0xff; code != sqlite3.SQLITE_IOERR && f.Kind != database.Denied {
		return f, true
	}
	if f.Cause = refused(filepath.Dir(c.path)); isFull(f.Cause) {
		f = database.Fault{Kind: database.NoSpace, Next: fault(sqlite3.SQLITE_FULL).Next, Cause: f.Cause}
	}
	return f, true
}

// refused returns the system's error for a write in a folder, or nil. SQLite doesn't say why a write has failed, and reports a full disk
// as an I/O error if the index of its log can't grow.
func refused(dir string) error {
	f, err := os.CreateTemp(dir, ".room-*")
	if err != nil {
		return reason(err)
	}
	// The index grows in steps of this size.
	_, err = f.Write(make([]byte, 32<<10))
	return reason(errors.Join(err, f.Close(), os.Remove(f.Name())))
}

// reason returns the system's error without the name of the temporary file.
func reason(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// fault explains a result code. Its upper bits are details.
func fault(code int) database.Fault {
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return database.Fault{Kind: database.NoSpace, Next: "free some space on its disk"}
	case sqlite3.SQLITE_BUSY:
		return database.Fault{Kind: database.Busy, Next: "another process holds a write transaction open; end that process"}
	case sqlite3.SQLITE_LOCKED:
		return database.Fault{Next: "another process holds a write transaction open; end that process"}
	case sqlite3.SQLITE_CONSTRAINT:
		return database.Fault{Kind: database.Constraint}
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return database.Fault{Kind: database.Denied, Next: "make the file and its folder writable, or set GANTRY_HOME to another folder"}
	case sqlite3.SQLITE_IOERR:
		return database.Fault{Next: "check the disk that holds it"}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return database.Fault{Kind: database.Damaged, Next: "restore it from a backup, or move it away together with its -wal file to start over"}
	}
	return database.Fault{}
}

func isBusy(err error) bool { return kindOf(err) == database.Busy }

func kindOf(err error) database.Kind {
	if e, ok := errors.AsType[*gosqlite.Error](err); ok {
		return fault(e.Code()).Kind
	}
	return database.Unknown
}
