package pluginstate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Acquire polls for a lease that another process holds, because no event signals its release. A delay of 250 ms is hardly
// noticeable, and each poll costs one small transaction.
const (
	firstLeasePoll = 10 * time.Millisecond
	lastLeasePoll  = 250 * time.Millisecond
)

type leaseKey struct{ plugin, name string }

type leaseRow struct {
	Plugin    string `gorm:"primaryKey"`
	Name      string `gorm:"primaryKey"`
	Token     uint64
	Held      bool
	Holder    string
	Host      string
	GrantedAt int64
}

func (leaseRow) TableName() string { return "leases" }

// BusyError says that another holder has the lease.
type BusyError struct {
	Plugin, Name string
	Holder       string         // name of the holder
	Owner        database.Owner // its host process
}

// Error implements error.
func (e *BusyError) Error() string {
	s := fmt.Sprintf("lease %q of plugin %q is held by %q", e.Name, e.Plugin, e.Holder)
	if e.Owner.PID != 0 {
		s += fmt.Sprintf(" (host %s)", e.Owner)
	}
	return s
}

// ErrLeaseLost says that another holder has the lease, or has had it since.
var ErrLeaseLost = errors.New("the lease is lost")

// Lease is an exclusive right among all processes that use the database. It ends with Release, when its [Store] is closed, or
// with the host process.
type Lease struct {
	Plugin, Name, Holder string
	Token                uint64 // increases with every grant of this name, also across restarts

	state *Store
	once  sync.Once
	lost  chan struct{}
	err   error // written before lost is closed
}

// Lost is closed when the lease has ended; Err returns the cause.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err returns nil while the lease is held and after Release, and otherwise the cause of its end.
func (l *Lease) Err() error {
	select {
	case <-l.lost:
		return l.err
	default:
		return nil
	}
}

func (l *Lease) end(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.lost)
	})
}

// Acquire acquires a lease. If another holder has it, Acquire waits for the duration wait or until ctx ends; then the error is a
// [*BusyError]. The leases of a host process end with the process.
func (s *Store) Acquire(ctx context.Context, plugin, name, holder string, wait time.Duration) (*Lease, error) {
	if name == "" || len(name) > MaxKeyBytes {
		return nil, fmt.Errorf("acquire lease of plugin %q: a name has 1 to %d bytes, this one has %d", plugin, MaxKeyBytes, len(name))
	}
	if err := s.announce(ctx); err != nil {
		return nil, fmt.Errorf("acquire lease %q of plugin %q: %w", name, plugin, err)
	}
	key := leaseKey{plugin, name}
	deadline := time.Now().Add(wait)
	for poll := firstLeasePoll; ; poll = min(2*poll, lastLeasePoll) {
		s.mu.Lock()
		released := s.mu.released
		s.mu.Unlock()
		lease, err := s.tryAcquire(ctx, key, holder)
		if lease != nil {
			return lease, nil
		}
		if _, busy := errors.AsType[*BusyError](err); !busy {
			return nil, fmt.Errorf("acquire lease %q of plugin %q: %w", name, plugin, err)
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, err
		}
		t := time.NewTimer(min(left, poll/2+rand.N(poll)))
		select {
		case <-t.C:
		case <-released:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

// announce holds a lock that tells other processes that this Store's leases are valid.
func (s *Store) announce(ctx context.Context) error {
	s.mu.Lock()
	closed, alive := s.mu.closed, s.mu.alive != nil
	s.mu.Unlock()
	switch {
	case closed:
		return database.ErrClosed
	case alive:
		return nil
	}
	lock, err := s.hosts.Take(ctx, s.host, "leases")
	if _, here := errors.AsType[*database.HeldError](err); here {
		return nil // another goroutine has done it
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return errors.Join(database.ErrClosed, lock.Release())
	}
	s.mu.alive = lock
	return nil
}

func (s *Store) tryAcquire(ctx context.Context, key leaseKey, holder string) (*Lease, error) {
	var lease *Lease
	var dead string
	err := s.write(ctx, func(tx *gorm.DB) error {
		var row leaseRow
		dead = ""
		err := tx.Where("plugin = ? AND name = ?", key.plugin, key.name).Limit(1).Find(&row).Error
		if err != nil {
			return err
		}
		if row.Held {
			owner, live, err := s.holds(ctx, key, row)
			if err != nil {
				return err
			}
			if live {
				return &BusyError{Plugin: key.plugin, Name: key.name, Holder: row.Holder, Owner: owner}
			}
			dead = row.Host
		}
		lease = &Lease{
			Plugin: key.plugin, Name: key.name, Holder: holder, Token: row.Token + 1, state: s, lost: make(chan struct{}),
		}
		// Before the commit: once the row names this Store as the holder, the Store must know the lease.
		if err := s.register(key, lease); err != nil {
			return err
		}
		return database.Exec(tx, `INSERT INTO leases (plugin, name, token, held, holder, host, granted_at) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (plugin, name) DO UPDATE SET token = excluded.token, held = excluded.held, holder = excluded.holder,
			host = excluded.host, granted_at = excluded.granted_at`,
			key.plugin, key.name, lease.Token, 1, holder, s.host, time.Now().UnixNano())
	})
	if err != nil {
		if lease != nil {
			s.drop(lease, err)
		}
		return nil, err
	}
	if dead != "" && dead != s.host {
		s.removeDeadHost(ctx, dead)
	}
	return lease, nil
}

func (s *Store) register(key leaseKey, l *Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return database.ErrClosed
	}
	s.mu.leases[key] = l
	return nil
}

// holds reports whether the holder in a row still has the lease.
func (s *Store) holds(ctx context.Context, key leaseKey, row leaseRow) (owner database.Owner, live bool, err error) {
	if row.Host == s.host {
		s.mu.Lock()
		defer s.mu.Unlock()
		l := s.mu.leases[key]
		return database.Owner{}, l != nil && l.Token == row.Token, nil // the row is stale if its update has failed
	}
	return s.hosts.Holder(ctx, row.Host)
}

// removeDeadHost removes what is left of a host process that has ended.
func (s *Store) removeDeadHost(ctx context.Context, host string) {
	if lock, err := s.hosts.Take(ctx, host, "tidy"); err == nil {
		_ = lock.Release() // removes the lock file; if that fails, the next call tries again
	}
}

// Check checks in the database whether the lease is still held. If it is not, the lease ends with [ErrLeaseLost].
func (l *Lease) Check(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	g, err := l.state.db.Read(ctx)
	if err != nil {
		return err
	}
	var row leaseRow
	if err := g.Where("plugin = ? AND name = ?", l.Plugin, l.Name).Limit(1).Find(&row).Error; err != nil {
		return l.state.db.Explain(err)
	}
	if !row.Held || row.Token != l.Token {
		l.state.drop(l, ErrLeaseLost)
		return ErrLeaseLost
	}
	return nil
}

// Release releases the lease. It does nothing if the lease has ended. If it fails, the lease is free for this process immediately,
// and for other processes when this one ends.
func (l *Lease) Release(ctx context.Context) error {
	if !l.state.drop(l, nil) {
		return nil
	}
	err := l.state.write(ctx, func(tx *gorm.DB) error {
		return database.Exec(tx, "UPDATE leases SET held = 0 WHERE plugin = ? AND name = ? AND token = ?", l.Plugin, l.Name, l.Token)
	})
	l.state.wakeWaiters()
	if err != nil && !errors.Is(err, database.ErrClosed) {
		return fmt.Errorf("release lease %q of plugin %q: %w", l.Name, l.Plugin, err)
	}
	return nil
}

// drop removes a lease that ends, and reports whether it was held.
func (s *Store) drop(l *Lease, err error) bool {
	key := leaseKey{l.Plugin, l.Name}
	s.mu.Lock()
	held := s.mu.leases[key] == l
	if held {
		delete(s.mu.leases, key)
	}
	s.mu.Unlock()
	l.end(err)
	return held
}

func (s *Store) wakeWaiters() {
	s.mu.Lock()
	released := s.mu.released
	s.mu.released = make(chan struct{})
	s.mu.Unlock()
	close(released)
}
