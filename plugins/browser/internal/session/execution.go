package session

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Execution is the use of a browser by one execution of a script. It is safe for concurrent use.
type Execution[C io.Closer] struct {
	m    *Manager[C]
	id   string
	turn chan struct{} // has a token while an operation runs, so that concurrent first uses share one connection

	// Guarded by turn.
	conn     C
	browser  string // the ID of the browser that conn leads to; empty: not connected
	isShared bool   // it is the shared one
	held     *Held  // the lease of the shared browser; nil: not held
	used     entry  // as stored
	disposed bool
}

// Execution returns the execution with an ID, which may have been paused.
func (m *Manager[C]) Execution(id string) *Execution[C] {
	return &Execution[C]{m: m, id: id, turn: make(chan struct{}, 1)}
}

func (x *Execution[C]) enter(ctx context.Context) (leave func(), err error) {
	select {
	case x.turn <- struct{}{}:
		return func() { <-x.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (x *Execution[C]) key() string { return executions + x.id }

// Conn returns the connection to the execution's browser. The first use chooses or creates the browser.
func (x *Execution[C]) Conn(ctx context.Context) (C, error) {
	var none C
	leave, err := x.enter(ctx)
	if err != nil {
		return none, err
	}
	defer leave()
	switch {
	case x.disposed:
		return none, errors.New("the execution has ended")
	case x.browser != "" && x.lost():
		return none, errors.Join(ErrStale, x.drop())
	case x.browser != "":
		return x.conn, x.m.touch(ctx, x.entryKey(), &x.used)
	}
	if err := x.resolve(ctx); err != nil {
		x.release()
		return none, err
	}
	if x.conn, err = x.m.o.Browsers.Connect(ctx, x.used.SessionID); err != nil {
		x.release()
		return none, err
	}
	x.browser = x.used.SessionID
	return x.conn, nil
}

func (x *Execution[C]) entryKey() string {
	if x.isShared {
		return x.m.key()
	}
	return x.key()
}

// lost reports whether the lease of the browser that is used has passed to another owner.
func (x *Execution[C]) lost() bool {
	if x.held == nil {
		return false
	}
	select {
	case <-x.held.Lost:
		return true
	default:
		return false
	}
}

// resolve chooses the browser and sets x.used and x.isShared. For a shared one, it holds the lease.
func (x *Execution[C]) resolve(ctx context.Context) error {
	x.isShared = false
	if x.m.o.Mode == Reuse {
		return x.share(ctx)
	}
	e, err := x.m.get(ctx, x.key())
	if err != nil {
		return err
	}
	if e.SessionID != "" {
		return x.resume(ctx, e)
	}
	if x.m.o.Mode == Dynamic {
		if err := x.acquire(ctx); err != nil {
			return err
		}
		s, _, err := x.m.current(ctx, x.held)
		if err != nil {
			return err
		}
		if s.SessionID != "" {
			x.used, x.isShared = s, true
			return nil
		}
		x.release()
	}
	id, err := x.m.o.Browsers.Create(ctx, OneShot)
	if err != nil {
		return err
	}
	now := x.m.o.Now()
	e = entry{SessionID: id, CreatedAt: now, UpdatedAt: now, version: e.version}
	if err := x.m.put(ctx, x.key(), &e); err != nil {
		x.m.retire(ctx, id)
		return err
	}
	x.used = e
	return nil
}

// resume continues with the browser of an execution that was paused. If it is gone, so is what the execution has done in it.
func (x *Execution[C]) resume(ctx context.Context, e entry) error {
	gone := !e.ClosedAt.IsZero()
	if !gone {
		_, err := x.m.o.Browsers.Targets(ctx, e.SessionID)
		if gone = errors.Is(err, ErrGone); err != nil && !gone {
			return err
		}
	}
	if !gone {
		x.used = e
		return x.m.touch(ctx, x.key(), &x.used)
	}
	if !e.Pending { // otherwise a sweep has to end the browser first
		if err := x.m.o.Store.Delete(ctx, x.key()); err != nil {
			return err
		}
	}
	return fmt.Errorf("browser session %s expired or was swept while this execution was paused, so the run cannot continue; start a new execution", e.SessionID)
}

// share makes the shared browser the execution's.
func (x *Execution[C]) share(ctx context.Context) error {
	if err := x.acquire(ctx); err != nil {
		return err
	}
	e, err := x.m.ensure(ctx, x.held)
	x.used, x.isShared = e, true
	return err
}

func (x *Execution[C]) acquire(ctx context.Context) (err error) {
	if x.held != nil && !x.lost() {
		return nil
	}
	x.release()
	x.held, err = x.m.lease(ctx, leaseWait)
	return err
}

func (x *Execution[C]) release() {
	if x.held != nil {
		x.held.Release()
		x.held = nil
	}
}

// drop ends the connection, then the lease. The browser stays.
func (x *Execution[C]) drop() (err error) {
	defer x.release()
	if x.browser != "" {
		err = x.conn.Close()
		var none C
		x.conn, x.browser = none, ""
	}
	return err
}

// leased runs f with the lease of the shared browser: the execution's own, or one that is held for the moment.
func (x *Execution[C]) leased(ctx context.Context, f func() error) error {
	if x.held == nil || x.lost() {
		if err := x.acquire(ctx); err != nil {
			return err
		}
	}
	err := f()
	if !x.isShared || x.browser == "" {
		x.release()
	}
	return err
}

// Start makes sure that there is a shared browser. In the dynamic mode, a browser that the execution has already becomes the shared one.
// In the one-shot mode, there is none.
func (x *Execution[C]) Start(ctx context.Context) (i *Info, err error) {
	if x.m.o.Mode == OneShot {
		return nil, nil
	}
	leave, err := x.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = x.leased(ctx, func() error {
		if x.m.o.Mode == Dynamic && x.browser != "" && !x.isShared {
			err = x.promote(ctx)
		} else {
			_, err = x.m.ensure(ctx, x.held)
		}
		if err == nil {
			i, err = x.m.info(ctx, x.held)
		}
		return err
	})
	return i, err
}

// promote makes the execution's own browser the shared one. Its entry as that of the execution stays until the execution ends.
func (x *Execution[C]) promote(ctx context.Context) error {
	if err := x.m.o.Promote(ctx, x.browser); err != nil {
		return err
	}
	for range attempts {
		old, err := x.m.claim(ctx, x.held)
		if err != nil {
			return err
		}
		if old.SessionID != x.browser {
			e := x.used
			e.Token, e.version = x.held.Token, old.version
			err := x.m.put(ctx, x.m.key(), &e)
			if errors.Is(err, ErrConflict) {
				continue
			}
			if err != nil {
				return err
			}
			x.used = e
			if old.SessionID != "" {
				x.m.retire(ctx, old.SessionID)
			}
		}
		x.isShared = true
		return nil
	}
	return x.m.busy()
}

// Info describes the shared browser; nil: there is none.
func (x *Execution[C]) Info(ctx context.Context) (i *Info, err error) {
	if x.m.o.Mode == OneShot {
		return nil, nil
	}
	leave, err := x.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = x.leased(ctx, func() error { i, err = x.m.info(ctx, x.held); return err })
	return i, err
}

// Close ends the shared browser. If the execution uses it, the next use chooses another one.
func (x *Execution[C]) Close(ctx context.Context) error {
	if x.m.o.Mode == OneShot {
		return nil
	}
	leave, err := x.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return x.leased(ctx, func() error { return x.end(ctx) })
}

func (x *Execution[C]) end(ctx context.Context) error {
	var err error
	if x.isShared && x.browser != "" {
		err = x.conn.Close()
		var none C
		x.conn, x.browser = none, ""
	}
	id, failed := x.m.end(ctx, x.held)
	if failed != nil || id == "" {
		return errors.Join(err, failed)
	}
	own, failed := x.m.get(ctx, x.key())
	if failed == nil && own.SessionID == id {
		failed = x.m.o.Store.Delete(ctx, x.key())
	}
	return errors.Join(err, failed)
}

// Reset ends the shared browser and creates another one.
func (x *Execution[C]) Reset(ctx context.Context) (i *Info, err error) {
	if x.m.o.Mode == OneShot {
		return nil, nil
	}
	leave, err := x.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = x.leased(ctx, func() error {
		if err := x.end(ctx); err != nil {
			return err
		}
		if _, err := x.m.ensure(ctx, x.held); err != nil {
			return err
		}
		i, err = x.m.info(ctx, x.held)
		return err
	})
	return i, err
}

// Pause ends the connection and keeps the browser for an execution with the same ID.
func (x *Execution[C]) Pause(ctx context.Context) error {
	leave, err := x.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return x.drop()
}

// Dispose ends the execution: its connection, and its browser unless that is shared. Idempotent.
func (x *Execution[C]) Dispose(ctx context.Context) error {
	leave, err := x.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if x.disposed {
		return nil
	}
	x.disposed = true
	err = x.drop()
	if x.m.o.Mode == Reuse {
		return err
	}
	return errors.Join(err, x.forget(ctx))
}

// forget removes the execution's entry, and the browser if it is not the shared one.
func (x *Execution[C]) forget(ctx context.Context) error {
	own, err := x.m.get(ctx, x.key())
	if err != nil || own.SessionID == "" {
		return err
	}
	common, err := x.m.get(ctx, x.m.key())
	if err != nil {
		return err
	}
	if own.ClosedAt.IsZero() && own.SessionID != common.SessionID {
		if err := x.m.remove(ctx, own.SessionID); err != nil {
			x.m.o.Log("the browser of an execution can't be ended", err)
			own.ClosedAt, own.Pending = x.m.o.Now(), true
			return x.m.put(ctx, x.key(), &own) // a sweep tries again
		}
	}
	return x.m.o.Store.Delete(ctx, x.key())
}
