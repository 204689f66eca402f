package postgres

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/jackc/pgx/v5/pgconn"
)

// Fault implements [database.Conn].
func (c *conn) Fault(err error) (database.Fault, bool) {
	if r, ok := errors.AsType[*refusedError](err); ok {
		return database.Fault{Next: r.next}, true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return c.fault(e), true
	}
	if lost(err) {
		return database.Fault{Kind: database.Unreachable, Next: "check that the server is running and reachable"}, true
	}
	return database.Fault{}, false
}

// lost reports whether the connection is broken, as far as this side can tell.
func lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*connectError](err)
	return network || connect || errors.Is(err, driver.ErrBadConn) || errors.Is(err, errStalled) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// fault explains an error code of the server; its first two characters are its class.
func (c *conn) fault(e *pgconn.PgError) database.Fault {
	switch e.Code {
	case "40001", "40P01": // serialization failure, deadlock
		return database.Fault{Kind: database.Busy, Next: "try again"}
	case "55P03": // lock timeout
		return database.Fault{Kind: database.Busy, Next: "another process holds a write transaction open; `SELECT * FROM pg_stat_activity` shows which"}
	case "53100":
		return database.Fault{Kind: database.NoSpace, Next: "free some space on the server's disk"}
	case "53300":
		return database.Fault{Kind: database.Unreachable, Next: "increase the server's max_connections, or close connections"}
	case "57P01", "57P02", "57P03", "57P05":
		return database.Fault{Kind: database.Unreachable, Next: "wait until the server is running again"}
	case "25006":
		return database.Fault{Kind: database.Denied, Next: "name the primary server in the dsn, or all of them with target_session_attrs=read-write"}
	case "28000", "28P01":
		return database.Fault{Next: "check the user and password in the dsn, and the server's pg_hba.conf"}
	case "3D000":
		return database.Fault{Next: "create the database: CREATE DATABASE NAME"}
	case "42501":
		return database.Fault{Next: "allow the user in the dsn to create and change tables: GRANT CREATE, USAGE ON SCHEMA NAME TO USER"}
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08":
		return database.Fault{Kind: database.Unreachable, Next: "check that the server is running and reachable"}
	case "23":
		return database.Fault{Kind: database.Constraint}
	case "53", "58", "XX":
		return database.Fault{Next: "see the server's log"}
	}
	return database.Fault{}
}

// plain returns the error of a connection attempt in one line, without the configuration that pgx attaches, which contains the password.
func plain(err error) error {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("the server refused the connection: %w", e)
	}
	var tried []string // one line for each attempt, with and without TLS
	for line := range strings.Lines(connect.Unwrap().Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(tried, line) {
			tried = append(tried, line)
		}
	}
	return &connectError{strings.Join(tried, ", ")}
}

// connectError says why connecting has failed.
type connectError struct{ text string }

func (e *connectError) Error() string { return e.text }
