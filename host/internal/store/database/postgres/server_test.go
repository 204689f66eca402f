package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"gorm.io/gorm"
)

// All tests that need a server, on one.
func TestOnAServer(t *testing.T) {
	server := postgrestest.Start(t)
	for name, test := range map[string]func(t *testing.T, address string){
		"a connection that breaks is made anew":       testABrokenConnection,
		"a commit of unknown outcome is not repeated": testAnUnknownCommit,
		"what may run beside others":                  testBeside,
		"a deadlock is tried again":                   testADeadlock,
		"commits wait for the disk":                   testDurable,
		"databases that are refused":                  testRefused,
		"a lock has one holder":                       testOneHolder,
		"a lock outlives its connection":              testALockOutlivesItsConnection,
		"a lock that was lost":                        testALostLock,
		"what is given back while nobody listens":     testGivenBackInSilence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, postgrestest.Place(t, server.Address))
		})
	}
}

func config(address string) database.Config {
	return database.Config{Driver: Driver{}, Source: address, Schema: "test", BusyWait: time.Minute, Migrations: []database.Migration{
		{Name: "numbers", SQL: []string{"CREATE TABLE numbers (n INTEGER)"}},
	}}
}

// connect makes the schema and opens it past [database.Open].
func connect(t *testing.T, address string) *conn {
	t.Helper()
	d, err := database.Open(t.Context(), config(address))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Driver{}.Connect(t.Context(), config(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c.(*conn)
}

func insert(n int) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error { return tx.Exec("INSERT INTO numbers VALUES (?)", n).Error }
}

func numbers(t *testing.T, c *conn) string {
	t.Helper()
	g, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	var n []int
	if err := g.WithContext(t.Context()).Raw("SELECT n FROM numbers ORDER BY n").Scan(&n).Error; err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(n)
}

// cut breaks the connection that a transaction runs on, from the server's side.
func cut(t *testing.T, tx *gorm.DB, address string) {
	t.Helper()
	var pid int
	if err := tx.Raw("SELECT pg_backend_pid()").Scan(&pid).Error; err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, address, "SELECT pg_terminate_backend($1, 10000)", pid)
}

func testABrokenConnection(t *testing.T, address string) {
	c := connect(t, address)
	runs := 0
	err := c.Try(t.Context(), database.TxOptions{}, func(tx *gorm.DB) error {
		if runs++; runs == 1 {
			if err := insert(1)(tx); err != nil {
				return err
			}
			cut(t, tx, address)
		}
		return insert(2)(tx)
	})
	if err != nil || runs != 2 || numbers(t, c) != "[2]" {
		t.Errorf("%v, %d runs, %s", err, runs, numbers(t, c))
	}
	// One that breaks each time is told.
	err = c.Try(t.Context(), database.TxOptions{}, func(tx *gorm.DB) error {
		cut(t, tx, address)
		return insert(3)(tx)
	})
	if !database.IsUnreachable(database.Explain(c, "write", err)) || numbers(t, c) != "[2]" {
		t.Errorf("%v, %s", err, numbers(t, c))
	}
}

func testAnUnknownCommit(t *testing.T, address string) {
	c := connect(t, address)
	runs := 0
	err := c.Try(t.Context(), database.TxOptions{}, func(tx *gorm.DB) error {
		runs++
		if err := insert(1)(tx); err != nil {
			return err
		}
		cut(t, tx, address) // the next thing that goes over it is the commit
		return nil
	})
	if runs != 1 || err == nil || !strings.Contains(err.Error(), "not known whether") || !database.IsUnreachable(database.Explain(c, "write", err)) {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func testBeside(t *testing.T, address string) {
	a, b := connect(t, address), connect(t, address)
	try := func(c *conn, how database.TxOptions, wait time.Duration, fn func(tx *gorm.DB) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		return c.Try(ctx, how, fn)
	}
	err := a.Try(t.Context(), database.TxOptions{Concurrent: true}, func(tx *gorm.DB) error {
		if err := try(b, database.TxOptions{Concurrent: true}, time.Minute, insert(1)); err != nil {
			return fmt.Errorf("two that may: %w", err)
		}
		if err := try(b, database.TxOptions{}, 10*time.Millisecond, insert(2)); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("one that may not: %w", err)
		}
		return insert(3)(tx)
	})
	if err != nil {
		t.Error(err)
	}
	if got := numbers(t, a); got != "[1 3]" {
		t.Errorf("%s", got)
	}
}

func testADeadlock(t *testing.T, address string) {
	c := connect(t, address)
	if err := c.Try(t.Context(), database.TxOptions{}, func(tx *gorm.DB) error { return errors.Join(insert(1)(tx), insert(2)(tx)) }); err != nil {
		t.Fatal(err)
	}
	add := func(tx *gorm.DB, n int) error {
		return tx.Exec("UPDATE numbers SET n = n + 10 WHERE n % 10 = ?", n).Error
	}
	met := make(chan struct{}, 2)
	var both sync.WaitGroup
	both.Add(2)
	meet := func(once *sync.Once) { once.Do(func() { both.Done(); both.Wait(); met <- struct{}{} }) }
	var wg sync.WaitGroup
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		other, err := database.Open(t.Context(), config(address))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		wg.Go(func() {
			var once sync.Once
			err := other.WriteConcurrent(t.Context(), database.Full, func(tx *gorm.DB) error {
				if err := add(tx, order[0]); err != nil {
					return err
				}
				meet(&once)
				return add(tx, order[1])
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := numbers(t, c); got != "[21 22]" || len(met) != 2 {
		t.Errorf("%s", got)
	}
}

func testDurable(t *testing.T, address string) {
	c := connect(t, address+" synchronous_commit=off")
	err := c.Try(t.Context(), database.TxOptions{}, func(tx *gorm.DB) error {
		var waits string
		if err := tx.Raw("SHOW synchronous_commit").Scan(&waits).Error; err != nil || waits != "on" {
			return fmt.Errorf("synchronous_commit = %s, %w", waits, err)
		}
		return nil
	})
	if err != nil || !c.Durable() {
		t.Error(err)
	}
	// What asks for even more gets it.
	c = connect(t, address+" synchronous_commit=remote_apply")
	err = c.Try(t.Context(), database.TxOptions{Full: true}, func(tx *gorm.DB) error {
		var waits string
		if err := tx.Raw("SHOW synchronous_commit").Scan(&waits).Error; err != nil || waits != "remote_apply" {
			return fmt.Errorf("synchronous_commit = %s, %w", waits, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testRefused(t *testing.T, address string) {
	foreign := postgrestest.Place(t, strings.Split(address, " search_path")[0])
	postgrestest.Exec(t, foreign, "CREATE TABLE theirs (x int)")
	closed := postgrestest.Place(t, strings.Split(address, " search_path")[0])
	_, schema, _ := strings.Cut(closed, "search_path=")
	postgrestest.Exec(t, closed, "REVOKE CREATE ON SCHEMA "+schema+" FROM gantry")
	for source, want := range map[string]string{
		foreign: "tables that are not gantry's; next: create a schema",
		closed:  "permission denied for schema " + schema + " (SQLSTATE 42501); next: allow the user",
		strings.Split(address, " search_path")[0] + " search_path=nowhere": "the schema in search_path does not exist; next: create it",
		strings.Replace(address, "dbname=gantry", "dbname=nothing", 1):     `database "nothing" does not exist (SQLSTATE 3D000); next: create the database`,
		strings.Replace(address, "user=gantry", "user=nobody-here", 1):     `role "nobody-here" does not exist (SQLSTATE 28000); next: check the user`,
	} {
		d, err := database.Open(t.Context(), config(source))
		if err == nil {
			_ = d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", source, err, want)
		}
	}
}

func take(t *testing.T, c *conn, name string) database.Lock {
	t.Helper()
	l, err := c.locks.Take(t.Context(), name, "test")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func holder(t *testing.T, c *conn, name string) bool {
	t.Helper()
	_, held, err := c.locks.Holder(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func testOneHolder(t *testing.T, address string) {
	a, b := connect(t, address), connect(t, address)
	l := take(t, a, "x")
	for _, c := range []*conn{a, b} {
		if _, err := c.locks.Take(t.Context(), "x", "test"); !errors.As(err, new(*database.HeldError)) {
			t.Errorf("%v", err)
		}
		if !holder(t, c, "x") || holder(t, c, "y") {
			t.Error("Holder is wrong")
		}
	}
	other := take(t, b, "y")
	if err := errors.Join(l.Release(), l.Release(), other.Release()); err != nil {
		t.Error(err)
	}
	if holder(t, a, "x") || holder(t, b, "x") {
		t.Error("after Release it is held")
	}
	l = take(t, b, "x")
	// On another machine it says so.
	b.locks.machine = "elsewhere"
	if owner, held, err := b.locks.Holder(t.Context(), "x"); err != nil || !held || owner.Machine != a.locks.machine || owner.Since.IsZero() {
		t.Errorf("%+v, %v, %v", owner, held, err)
	}
	// The end of a connection is the end of all that its process holds.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	next := take(t, a, "x")
	if err := errors.Join(next.Release(), l.Release()); err == nil {
		t.Error("a lock of a closed database is given back")
	}
}

// eventually waits for something that the server does on its own.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// another is a host with a role of its own, which the server can turn away.
type another struct {
	*conn
	root, role string
	t          *testing.T
}

func newAnother(t *testing.T, address string) *another {
	t.Helper()
	_ = connect(t, address) // makes the tables
	_, schema, _ := strings.Cut(address, "search_path=")
	a := &another{root: strings.Replace(address, "user=gantry", "user=postgres", 1), role: "r" + schema, t: t}
	for _, statement := range []string{
		"CREATE ROLE " + a.role + " LOGIN", "GRANT USAGE ON SCHEMA " + schema + " TO " + a.role,
		"GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + a.role,
	} {
		postgrestest.Exec(t, a.root, statement)
	}
	c, err := Driver{}.Connect(t.Context(), config(strings.Replace(address, "user=gantry", "user="+a.role, 1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a.conn = c.(*conn)
	return a
}

// connections tells how many it has; those for presence alone are idle and have asked for a lock.
func (a *another) connections(c *conn, presence bool) (n int) {
	a.t.Helper()
	err := c.reads.QueryRowContext(a.t.Context(), `SELECT count(*) FROM pg_stat_activity a WHERE usename = $1 AND (NOT $2 OR EXISTS
		(SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))`, a.role, presence).Scan(&n)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// cutPresence breaks the connection by which others see that it lives.
func (a *another) cutPresence() {
	a.t.Helper()
	postgrestest.Exec(a.t, a.root, `SELECT pg_terminate_backend(a.pid, 10000) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
		WHERE a.usename = $1 AND l.locktype = 'advisory'`, a.role)
}

func (a *another) cutAll() {
	a.t.Helper()
	postgrestest.Exec(a.t, a.root, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1", a.role)
}

func (a *another) turnAway() {
	a.t.Helper()
	postgrestest.Exec(a.t, a.root, "ALTER ROLE "+a.role+" NOLOGIN")
}
func (a *another) letIn() {
	a.t.Helper()
	postgrestest.Exec(a.t, a.root, "ALTER ROLE "+a.role+" LOGIN")
}

// fenced tells what the fence of a name says in a transaction.
func fenced(t *testing.T, c *conn, name string) (held bool) {
	t.Helper()
	condition, args := c.locks.Fence(name)
	if condition == "" {
		t.Fatalf("%s has no fence", name)
	}
	err := c.Try(t.Context(), database.TxOptions{Concurrent: true}, func(tx *gorm.DB) error {
		return tx.Raw("SELECT "+condition, args...).Row().Scan(&held)
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func testALockOutlivesItsConnection(t *testing.T, address string) {
	a, b := newAnother(t, address), connect(t, address)
	l := take(t, a.conn, "x")
	a.cutPresence()
	eventually(t, "it is present again", func() bool { return a.connections(b, true) == 1 })
	if !fenced(t, a.conn, "x") || !holder(t, a.conn, "x") || !holder(t, b, "x") {
		t.Error("it is lost although nobody took it")
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if condition, _ := a.locks.Fence("x"); condition != "" {
		t.Errorf("after Release the fence is %s", condition)
	}
}

func testALostLock(t *testing.T, address string) {
	a, b := newAnother(t, address), connect(t, address)
	lost := take(t, a.conn, "x")
	if !fenced(t, a.conn, "x") {
		t.Error("what was taken is not held")
	}
	a.turnAway()
	a.cutPresence()
	taken := take(t, b, "x")
	if fenced(t, a.conn, "x") || !fenced(t, b, "x") {
		t.Error("the one who lost it may write, or the other may not")
	}
	a.letIn()
	eventually(t, "it is present again", func() bool { return a.connections(b, true) == 1 })
	if fenced(t, a.conn, "x") || !holder(t, a.conn, "x") {
		t.Error("it is back")
	}
	if err := lost.Release(); err != nil {
		t.Error(err)
	}
	if !fenced(t, b, "x") || !holder(t, a.conn, "x") {
		t.Error("giving back what was lost takes it from who has it")
	}
	if err := taken.Release(); err != nil {
		t.Error(err)
	}
}

func testGivenBackInSilence(t *testing.T, address string) {
	a, b := newAnother(t, address), connect(t, address)
	given, kept := take(t, a.conn, "given"), take(t, a.conn, "kept")
	a.turnAway()
	a.cutAll()
	if err := given.Release(); err == nil {
		t.Error("given back without a server")
	}
	a.letIn()
	eventually(t, "it is free", func() bool { return a.connections(b, true) == 1 && !holder(t, b, "given") })
	if !holder(t, b, "kept") {
		t.Error("what was not given back is free")
	}
	l := take(t, b, "given")
	if err := errors.Join(l.Release(), kept.Release()); err != nil {
		t.Error(err)
	}
}
