package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// locks are rows that name their holder. A row is valid while its holder is present, that is, while it has a connection with an
// advisory lock of its own, which the server releases when that connection ends. So a killed process holds no locks, and a process
// that could not reach the server for a while has lost only the locks that others have acquired meanwhile. The [locks.Fence] of its
// next write detects that.
type locks struct {
	c        *conn
	holder   string // unique name of this process
	machine  string
	presence *presence

	mu struct {
		sync.Mutex
		held map[string]bool
	}
}

func newLocks(c *conn, place string, to *pgx.ConnConfig) *locks {
	l := &locks{c: c, holder: uuid.NewString()}
	l.machine, _ = os.Hostname() // only for messages, and to recognise holders on the same machine
	l.mu.held = map[string]bool{}
	l.presence = newPresence(to, hash(place, "presence", l.holder), l.forget)
	return l
}

// waitForLock limits acquiring and releasing a lock if the caller's context does not. Both take much less.
const waitForLock = 10 * time.Second

type lockRow struct {
	Holder, Machine string
	PID             int `gorm:"column:pid"`
	Since           int64
	Present         bool
}

// find returns the row of a lock, if there is one.
func (l *locks) find(g *gorm.DB, name string) (row lockRow, found bool, err error) {
	err = g.Raw(`SELECT holder, machine, pid, since, EXISTS (SELECT 1 FROM pg_locks p WHERE p.locktype = 'advisory' AND p.granted
			AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND p.objsubid = 1
			AND p.classid::bigint = ((presence >> 32) & 4294967295) AND p.objid::bigint = (presence & 4294967295)) AS present
		FROM `+l.c.lockTable()+" WHERE name = ?", name).Row().Scan(&row.Holder, &row.Machine, &row.PID, &row.Since, &row.Present)
	if errors.Is(err, sql.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, err
}

// isHeld reports whether a row's holder has the lock. For this process, the memory is authoritative.
func (l *locks) isHeld(row lockRow, name string) bool {
	if row.Holder != l.holder {
		return row.Present
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.held[name]
}

func (l *locks) owner(row lockRow) database.Owner {
	o := database.Owner{PID: row.PID, Machine: row.Machine, Since: time.Unix(0, row.Since)}
	if o.Machine == l.machine {
		o.Machine = ""
	}
	return o
}

// The server notices the end of a process with a short delay. If the process was on the same machine, its end is known earlier, and the
// server is given time to notice it.
const (
	noticePause = 2 * time.Millisecond
	noticeBound = time.Second
)

// unnoticed waits a moment and returns true if the owner's process has ended. It returns false if the process is alive or if the server
// must have noticed its end by now.
func unnoticed(ctx context.Context, owner database.Owner, since time.Time) bool {
	if owner.Machine != "" || flock.Alive(owner.PID) || time.Since(since) > noticeBound {
		return false
	}
	t := time.NewTimer(noticePause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Holder implements [database.Locks].
func (l *locks) Holder(ctx context.Context, name string) (database.Owner, bool, error) {
	g, err := l.c.Read()
	if err != nil {
		return database.Owner{}, false, err
	}
	for start := time.Now(); ; {
		row, found, err := l.find(g.WithContext(ctx), name)
		if err != nil || !found || !l.isHeld(row, name) {
			return database.Owner{}, false, database.Explain(l.c, "read", err)
		}
		if owner := l.owner(row); !unnoticed(ctx, owner, start) {
			return owner, true, nil
		}
	}
}

// Take implements [database.Locks].
func (l *locks) Take(ctx context.Context, name, purpose string) (database.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, waitForLock)
	defer cancel()
	if err := l.presence.begin(ctx); err != nil {
		return nil, database.Explain(l.c, "write", err)
	}
	for start := time.Now(); ; {
		lock, err := l.take(ctx, name, purpose)
		held, ok := errors.AsType[*database.HeldError](err)
		if !ok || !unnoticed(ctx, held.Owner, start) {
			return lock, err
		}
	}
}

func (l *locks) take(ctx context.Context, name, purpose string) (database.Lock, error) {
	var taken bool
	err := l.c.Try(ctx, database.TxOptions{Full: true}, func(tx *gorm.DB) error {
		row, found, err := l.find(tx, name)
		if err != nil {
			return err
		}
		if found && l.isHeld(row, name) {
			return &database.HeldError{Name: name, Owner: l.owner(row)}
		}
		// Before the commit: once the row names this process as the holder, it must know so.
		taken = l.set(name, true)
		return tx.Exec("INSERT INTO "+l.c.lockTable()+` (name, holder, presence, pid, machine, purpose, since) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, presence = excluded.presence, pid = excluded.pid,
			machine = excluded.machine, purpose = excluded.purpose, since = excluded.since`,
			name, l.holder, l.presence.key, os.Getpid(), l.machine, purpose, time.Now().UnixNano()).Error
	})
	if err != nil {
		if taken {
			l.set(name, false)
		}
		return nil, database.Explain(l.c, "write", err)
	}
	return &lock{l: l, name: name}, nil
}

// set records whether this process holds a lock, and reports whether that has changed.
func (l *locks) set(name string, held bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.held[name] == held {
		return false
	}
	if held {
		l.mu.held[name] = true
	} else {
		delete(l.mu.held, name)
	}
	return true
}

// Fence implements [database.Locks].
func (l *locks) Fence(name string) (condition string, args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.held[name] {
		return "", nil
	}
	return "EXISTS (SELECT 1 FROM " + l.c.lockTable() + " WHERE name = ? AND holder = ?)", []any{name, l.holder}
}

// forget removes the rows of locks that this process has released while it could not reach the server.
func (l *locks) forget(ctx context.Context, c *pgx.Conn) error {
	l.mu.Lock()
	held := make([]string, 0, len(l.mu.held))
	for name := range l.mu.held {
		held = append(held, name)
	}
	l.mu.Unlock()
	_, err := c.Exec(ctx, "DELETE FROM "+l.c.lockTable()+" WHERE holder = $1 AND name <> ALL ($2)", l.holder, held)
	return err
}

func (l *locks) close() { l.presence.end() }

// lock is a lock that this process holds.
type lock struct {
	l    *locks
	name string
}

// Release implements [database.Lock]. If the server can't be reached, the lock is free for this process immediately, and for other
// processes when the server can be reached again or this process ends.
func (k *lock) Release() error {
	if !k.l.set(k.name, false) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitForLock)
	defer cancel()
	c := k.l.c
	err := c.Try(ctx, database.TxOptions{Full: true, Concurrent: true}, func(tx *gorm.DB) error {
		return tx.Exec("DELETE FROM "+c.lockTable()+" WHERE name = ? AND holder = ?", k.name, k.l.holder).Error
	})
	if err != nil {
		return fmt.Errorf("release lock %s: %w", k.name, database.Explain(c, "write", err))
	}
	return nil
}
