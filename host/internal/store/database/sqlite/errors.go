package sqlite

import (
	"errors"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	gosqlite "github.com/glebarez/go-sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Fault implements [database.Conn].
func (c *conn) Fault(err error) (database.Fault, bool) {
	e, ok := errors.AsType[*gosqlite.Error](err)
	if !ok {
		return database.Fault{}, false
	}
	return fault(e.Code()), true
}

// fault is what a result code means. Its upper bits are detail.
func fault(code int) database.Fault {
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return database.Fault{Kind: database.NoSpace, Next: "free some space on its disk"}
	case sqlite3.SQLITE_BUSY:
		return database.Fault{Kind: database.Busy, Next: "another process holds a write open; end it"}
	case sqlite3.SQLITE_LOCKED:
		return database.Fault{Next: "another process holds a write open; end it"}
	case sqlite3.SQLITE_CONSTRAINT:
		return database.Fault{Kind: database.Constraint}
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return database.Fault{Next: "make the file and its folder writable, or set GANTRY_HOME to another folder"}
	case sqlite3.SQLITE_IOERR:
		return database.Fault{Next: "check the disk that holds it"}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return database.Fault{Next: "move it away and start anew, or restore a copy of it"}
	}
	return database.Fault{}
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*gosqlite.Error](err)
	return ok && fault(e.Code()).Kind == database.Busy
}
