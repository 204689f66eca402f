package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// presence is a connection that does nothing but hold an advisory lock, by which others see that this process lives. It is
// made anew when it breaks.
type presence struct {
	to     *pgx.ConnConfig
	key    int64
	resume func(context.Context, *pgx.Conn) error // after it was made anew

	start  chan struct{}   // holds one token: who has it makes the first connection
	begun  bool            // guarded by it
	ctx    context.Context // of the goroutine
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// A broken connection is made anew after a pause that grows.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

func newPresence(to *pgx.ConnConfig, key int64, resume func(context.Context, *pgx.Conn) error) *presence {
	to = to.Copy()
	// The server looks after its side as well: what a machine without power held is free after half a minute.
	to.RuntimeParams["tcp_keepalives_idle"] = fmt.Sprint(int(keepAlive.Seconds()))
	to.RuntimeParams["tcp_keepalives_interval"] = "5"
	to.RuntimeParams["tcp_keepalives_count"] = "3"
	p := &presence{to: to, key: key, resume: resume, start: make(chan struct{}, 1)}
	p.start <- struct{}{}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// begin makes this process present, if it is not.
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
		return sql.ErrConnDone
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
	// Shared, so that the server's memory of a connection that broke does not stand in the way of the next one.
	if _, err := c.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_lock_shared(%d)", p.key)); err != nil {
		p.leave(c)
		return nil, err
	}
	return c, nil
}

// run keeps the connection until end.
func (p *presence) run(c *pgx.Conn) {
	for c != nil {
		// Nobody notifies: this returns when the connection breaks, or at the end.
		_, _ = c.WaitForNotification(p.ctx)
		p.leave(c)
		c = p.again()
	}
}

// leave closes a connection, which may be broken. The lock is given back before: the server sees a connection's end a moment
// later, and whoever comes next should not have to wait for that.
func (p *presence) leave(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = c.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_unlock_shared(%d)", p.key))
	_ = c.Close(ctx) // it is over either way
}

// again connects until that works; nil: this is the end.
func (p *presence) again() *pgx.Conn {
	for pause := firstRetry; p.ctx.Err() == nil; pause = min(2*pause, lastRetry) {
		c, err := p.connect(p.ctx)
		if err == nil {
			if err = p.resume(p.ctx, c); err == nil {
				return c
			}
			p.leave(c) // and once more from the beginning
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

// end takes the presence back.
func (p *presence) end() {
	p.cancel()
	<-p.start // nobody is beginning any more
	p.start <- struct{}{}
	p.work.Wait()
}
