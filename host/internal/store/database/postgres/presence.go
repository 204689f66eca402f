package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/jackc/pgx/v5"
)

// presence is a connection that only holds an advisory lock, which shows other processes that this one is alive. If the connection
// breaks, it is opened again.
type presence struct {
	to     *pgx.ConnConfig
	key    int64
	resume func(context.Context, *pgx.Conn) error // called after the connection was opened again

	start  chan struct{}   // contains one token, which serializes begin
	begun  bool            // guarded by the token
	ctx    context.Context // of the goroutine
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// A broken connection is opened again after an increasing pause.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

func newPresence(to *pgx.ConnConfig, key int64, resume func(context.Context, *pgx.Conn) error) *presence {
	to = to.Copy()
	// The server detects dead connections as well, so that the locks of a machine without power are free after half a minute.
	to.RuntimeParams["tcp_keepalives_idle"] = fmt.Sprint(int(keepAlive.Seconds()))
	to.RuntimeParams["tcp_keepalives_interval"] = "5"
	to.RuntimeParams["tcp_keepalives_count"] = "3"
	p := &presence{to: to, key: key, resume: resume, start: make(chan struct{}, 1)}
	p.start <- struct{}{}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// begin opens the connection if it is not open.
func (p *presence) begin(ctx context.Context) error {
	select {
	case <-p.start:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { p.start <- struct{}{} }()
	if p.begun {
		return nil
	}
	if p.ctx.Err() != nil {
		return database.ErrClosed
	}
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	p.begun = true
	p.work.Go(func() { p.run(c) }) // end waits for it
	return nil
}

func (p *presence) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.ConnectConfig(ctx, p.to)
	if err != nil {
		return nil, plain(err)
	}
	// The lock is shared, so that it can be acquired while the server still has it for the broken connection.
	if _, err := c.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_lock_shared(%d)", p.key)); err != nil {
		p.leave(c)
		return nil, err
	}
	return c, nil
}

// run keeps the connection open until end is called.
func (p *presence) run(c *pgx.Conn) {
	for c != nil {
		// There are no notifications, so this returns when the connection breaks or ctx ends.
		_, _ = c.WaitForNotification(p.ctx)
		p.leave(c)
		c = p.again()
	}
}

// leave closes a connection, which may be broken. It releases the lock first: the server notices the end of a connection a moment later,
// and the next holder should not have to wait for that.
func (p *presence) leave(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = c.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_unlock_shared(%d)", p.key))
	_ = c.Close(ctx) // the connection is not used again in any case
}

// again tries to connect until it succeeds. It returns nil after end was called.
func (p *presence) again() *pgx.Conn {
	for pause := firstRetry; p.ctx.Err() == nil; pause = min(2*pause, lastRetry) {
		c, err := p.connect(p.ctx)
		if err == nil {
			if err = p.resume(p.ctx, c); err == nil {
				return c
			}
			p.leave(c) // start over with a new connection
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-p.ctx.Done():
			t.Stop()
		}
	}
	return nil
}

// end closes the connection for good.
func (p *presence) end() {
	p.cancel()
	<-p.start // wait for a running begin
	p.start <- struct{}{}
	p.work.Wait()
}
