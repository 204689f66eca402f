// Package session decides which browser an execution of a script uses, and how long that browser lives.
//
// It owns: the modes, the stored entries with their tokens and tombstones, the order of leases and writes, and what is swept. It must not
// know: how a browser is started, what is sent to it, or where entries are stored.
//
// Start with [New].
package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Mode is how long the browser of an execution lives.
type Mode int

// The modes.
const (
	OneShot Mode = iota // as long as the execution
	Reuse               // one browser for all executions of a key
	Dynamic             // as OneShot, until an execution calls Start: from then on as Reuse
)

const (
	// touchAfter is the age at which the time of an entry's last use is written again.
	touchAfter = time.Minute
	// defaultKeep is how long an unused shared browser is kept.
	defaultKeep = 10 * time.Minute
	// executionKeep is how long the entries of executions are kept that nobody has disposed of.
	executionKeep = 24 * time.Hour
	// attempts limits how often a creation is tried while others change the same entry.
	attempts = 3
	// leaseWait bounds the wait for a lease; the caller's context mostly ends earlier.
	leaseWait = time.Hour
)

const (
	executions = "browser-session:cdp:exec:"
	shared     = "browser-session:cdp:reuse:"
)

var (
	// ErrGone is returned by Browsers for a browser that does not exist any more.
	ErrGone = errors.New("the browser is gone")
	// ErrConflict is returned by a Store for an entry that has changed.
	ErrConflict = errors.New("the entry has changed")
	// ErrStale is returned to an owner whose lease has passed to another one.
	ErrStale = errors.New("another owner has taken over the browser session; start a new execution")
)

// Target is something in a browser that can be attached to.
type Target struct {
	ID    string `json:"targetId"`
	Type  string `json:"type"`
	URL   string `json:"url"`
	Title string `json:"title"`
}

// Info describes a shared browser.
type Info struct {
	SessionID string   `json:"sessionId"`
	Targets   []Target `json:"targets"`
}

// Browsers are where browsers come from. C is a connection to one; closing it leaves the browser as it is.
type Browsers[C io.Closer] interface {
	Create(ctx context.Context, m Mode) (id string, err error)
	Targets(ctx context.Context, id string) ([]Target, error) // ErrGone: it does not exist
	Connect(ctx context.Context, id string) (C, error)
	Delete(ctx context.Context, id string) error // ErrGone: it does not exist
}

// Store keeps entries. Each method is one short operation; nothing is locked between them.
type Store interface {
	Get(ctx context.Context, key string) (value []byte, version uint64, ok bool, err error)
	// PutIf stores a value if the version is the given one; 0: if the key does not exist. Otherwise it returns ErrConflict.
	PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) ([]string, error)
}

// Held is a lease that is held.
type Held struct {
	Token   uint64 // greater than that of every earlier holder
	Lost    <-chan struct{}
	Release func() // idempotent
}

// Options are the options of New.
type Options[C io.Closer] struct {
	Browsers Browsers[C]
	Store    Store
	// Lease acquires the exclusive use of a name, waiting for at most wait.
	Lease func(ctx context.Context, name string, wait time.Duration) (*Held, error)
	// Adopt returns the ID of a browser that exists already, made by something else, and becomes the shared one if there is none; empty:
	// there is none. Optional.
	Adopt func() string
	// Promote makes a browser that one execution has created one for later executions. Optional.
	Promote func(ctx context.Context, id string) error
	Mode    Mode
	Key     string        // empty: default
	Keep    time.Duration // how long an unused shared browser is kept; 0: 10 minutes
	Now     func() time.Time
	Log     func(text string, err error) // of what nobody waits for; optional
}

// Manager manages the browsers of a key. It is safe for concurrent use.
type Manager[C io.Closer] struct{ o Options[C] }

// New returns a manager.
func New[C io.Closer](o Options[C]) *Manager[C] {
	o.Key, o.Keep = cmp.Or(o.Key, "default"), cmp.Or(o.Keep, defaultKeep)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Adopt == nil {
		o.Adopt = func() string { return "" }
	}
	if o.Promote == nil {
		o.Promote = func(context.Context, string) error { return nil }
	}
	if o.Log == nil {
		o.Log = func(string, error) {}
	}
	return &Manager[C]{o}
}

// entry is what is stored of a browser. A shared entry is never removed: without a session ID it keeps the token, so that an earlier owner
// is still refused.
type entry struct {
	SessionID string    `json:"session_id,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	ClosedAt  time.Time `json:"closed_at,omitzero"` // of a tombstone
	Pending   bool      `json:"pending,omitempty"`  // the browser of the tombstone may still exist
	Token     uint64    `json:"token,omitempty"`

	version uint64
}

func (m *Manager[C]) get(ctx context.Context, key string) (entry, error) {
	var e entry
	b, version, ok, err := m.o.Store.Get(ctx, key)
	if err != nil || !ok {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("entry %s: %w", key, err)
	}
	e.version = version
	return e, nil
}

func (m *Manager[C]) put(ctx context.Context, key string, e *entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	e.version, err = m.o.Store.PutIf(ctx, key, b, e.version)
	return err
}

func (m *Manager[C]) key() string { return shared + m.o.Key }

func (m *Manager[C]) lease(ctx context.Context, wait time.Duration) (*Held, error) {
	h, err := m.o.Lease(ctx, m.key(), wait)
	if err != nil {
		return nil, fmt.Errorf("wait for the browser session %q: %w", m.o.Key, err)
	}
	return h, nil
}

// claim returns the shared entry, after marking it as that of the holder of a lease.
func (m *Manager[C]) claim(ctx context.Context, h *Held) (entry, error) {
	for range attempts {
		e, err := m.get(ctx, m.key())
		if err != nil {
			return e, err
		}
		found := ""
		if e.SessionID == "" {
			found = m.o.Adopt()
		}
		switch {
		case e.Token > h.Token:
			return e, ErrStale
		case found != "":
			now := m.o.Now()
			e.SessionID, e.CreatedAt, e.UpdatedAt = found, now, now
		case e.Token == h.Token || e.SessionID == "":
			return e, nil
		}
		e.Token = h.Token
		if err := m.put(ctx, m.key(), &e); !errors.Is(err, ErrConflict) {
			return e, err
		}
	}
	return entry{}, m.busy()
}

func (m *Manager[C]) busy() error {
	return fmt.Errorf("browser session entry %s kept changing concurrently; retry", m.o.Key)
}

// clear removes the browser from the shared entry.
func (m *Manager[C]) clear(ctx context.Context, e entry, h *Held) error {
	return m.put(ctx, m.key(), &entry{Token: h.Token, version: e.version})
}

// touch writes the time of use unless it was written lately.
func (m *Manager[C]) touch(ctx context.Context, key string, e *entry) error {
	now := m.o.Now()
	if now.Sub(e.UpdatedAt) < touchAfter {
		return nil
	}
	e.UpdatedAt = now
	return m.put(ctx, key, e)
}

// current returns the shared browser if it exists; gone ones are removed from the entry.
func (m *Manager[C]) current(ctx context.Context, h *Held) (e entry, targets []Target, err error) {
	for range attempts {
		if e, err = m.claim(ctx, h); err != nil || e.SessionID == "" {
			return e, nil, err
		}
		targets, err = m.o.Browsers.Targets(ctx, e.SessionID)
		switch {
		case errors.Is(err, ErrGone):
			if err := m.clear(ctx, e, h); err != nil {
				return e, nil, err
			}
		case err != nil:
			return e, nil, err
		default:
			return e, targets, m.touch(ctx, m.key(), &e)
		}
	}
	return entry{}, nil, m.busy()
}

// ensure returns the shared browser, which is created if there is none.
func (m *Manager[C]) ensure(ctx context.Context, h *Held) (entry, error) {
	for range attempts {
		e, _, err := m.current(ctx, h)
		if err != nil || e.SessionID != "" {
			return e, err
		}
		id, err := m.o.Browsers.Create(ctx, Reuse)
		if err != nil {
			return e, err
		}
		now := m.o.Now()
		e = entry{SessionID: id, CreatedAt: now, UpdatedAt: now, Token: h.Token, version: e.version}
		err = m.put(ctx, m.key(), &e)
		if err == nil {
			return e, nil
		}
		if latest, again := m.get(ctx, m.key()); again != nil || latest.SessionID != id {
			m.retire(ctx, id) // nobody else will
		}
		if !errors.Is(err, ErrConflict) {
			return e, err
		}
	}
	return entry{}, m.busy()
}

// retire deletes a browser. If that fails, a tombstone makes a sweep try again.
func (m *Manager[C]) retire(ctx context.Context, id string) {
	err := m.remove(ctx, id)
	if err == nil {
		return
	}
	m.o.Log("a browser that is no longer needed can't be ended", err)
	now := m.o.Now()
	if err := m.put(ctx, executions+"retired:"+id, &entry{SessionID: id, CreatedAt: now, UpdatedAt: now, ClosedAt: now, Pending: true}); err != nil {
		m.o.Log("nor can that be noted", err)
	}
}

// remove deletes a browser. It is no error if it is gone.
func (m *Manager[C]) remove(ctx context.Context, id string) error {
	if err := m.o.Browsers.Delete(ctx, id); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

// end deletes the shared browser, and returns its ID. If that fails, the entry is kept.
func (m *Manager[C]) end(ctx context.Context, h *Held) (string, error) {
	e, err := m.claim(ctx, h)
	if err != nil || e.SessionID == "" {
		return "", err
	}
	if err := m.remove(ctx, e.SessionID); err != nil {
		return "", err
	}
	return e.SessionID, m.clear(ctx, e, h)
}

// Close ends the shared browser. It waits until no execution uses it.
func (m *Manager[C]) Close(ctx context.Context) error {
	if m.o.Mode == OneShot {
		return nil
	}
	h, err := m.lease(ctx, leaseWait)
	if err != nil {
		return err
	}
	defer h.Release()
	_, err = m.end(ctx, h)
	return err
}

// Info describes the shared browser; nil: there is none. It waits until no execution uses it.
func (m *Manager[C]) Info(ctx context.Context) (*Info, error) {
	if m.o.Mode == OneShot {
		return nil, nil
	}
	h, err := m.lease(ctx, leaseWait)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return m.info(ctx, h)
}

func (m *Manager[C]) info(ctx context.Context, h *Held) (*Info, error) {
	e, targets, err := m.current(ctx, h)
	if err != nil || e.SessionID == "" {
		return nil, err
	}
	return &Info{e.SessionID, targets}, nil
}
