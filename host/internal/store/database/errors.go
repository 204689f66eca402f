package database

import (
	"errors"
	"fmt"

	gosqlite "github.com/glebarez/go-sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Error says what SQLite could not do with a file, and what helps.
type Error struct {
	Path string
	Op   string // "open", "read", "write" or "migrate"
	Code int    // SQLite's primary result code
	Next string
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s database %s: %v", e.Op, e.Path, e.Err)
	if e.Next != "" {
		s += "; next: " + e.Next
	}
	return s
}

// Unwrap returns the driver's error.
func (e *Error) Unwrap() error { return e.Err }

// advice is what helps against a result code.
func advice(code int) string {
	switch code {
	case sqlite3.SQLITE_FULL:
		return "free some space on its disk"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another process holds a write open; end it"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return "make the file and its folder writable, or set GANTRY_HOME to another folder"
	case sqlite3.SQLITE_IOERR:
		return "check the disk that holds it"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "move it away and start anew, or restore a copy of it"
	}
	return ""
}

// explain turns the driver's error into an [Error]. Errors of other kinds pass.
func explain(path, op string, err error) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*Error](err); done {
		return err
	}
	e, ok := errors.AsType[*gosqlite.Error](err)
	if !ok {
		return err
	}
	code := e.Code() & 0xff // the rest is detail
	return &Error{Path: path, Op: op, Code: code, Next: advice(code), Err: err}
}

// Explain does for an error of a read what [DB.Write] does for its own.
func (d *DB) Explain(err error) error { return explain(d.cfg.Path, "read", err) }

func isBusy(err error) bool {
	e, ok := errors.AsType[*gosqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// IsBusy tells whether another process was in the way for too long.
func IsBusy(err error) bool { return isBusy(err) }

// IsConstraint tells whether rows contradict each other.
func IsConstraint(err error) bool {
	e, ok := errors.AsType[*gosqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT
}

// IsFull tells whether the disk was full.
func IsFull(err error) bool {
	e, ok := errors.AsType[*gosqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_FULL
}
