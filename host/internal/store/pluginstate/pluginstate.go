// Package pluginstate stores the keys and values of plugins, and the leases that they hold.
//
// It owns: state.db, whose changes are durable at once and can be read at any time; which process holds a lease, and when a
// lease of a process that has ended is free. It must not know: what a plugin stores, who may ask for it.
//
// Start with [Open].
package pluginstate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Limits of one key, as documented in the contract.
const (
	MaxKeyBytes   = 256
	MaxValueBytes = 1 << 20
)

// migrations is the history of the schema of state.db.
func migrations() []database.Migration {
	return []database.Migration{{
		Name: "keys and leases",
		SQL: []string{
			`CREATE TABLE keys (
				plugin TEXT NOT NULL,
				thread_id TEXT NOT NULL,
				key TEXT NOT NULL,
				value BLOB NOT NULL,
				version INTEGER NOT NULL,
				updated_at INTEGER NOT NULL,
				PRIMARY KEY (plugin, thread_id, key))`,
			`CREATE INDEX keys_thread ON keys (thread_id) WHERE thread_id <> ''`,
			`CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL)`,
			`INSERT INTO counters (name, value) VALUES ('version', 0)`,
			`CREATE TABLE leases (
				plugin TEXT NOT NULL,
				name TEXT NOT NULL,
				token INTEGER NOT NULL,
				held INTEGER NOT NULL,
				holder TEXT NOT NULL,
				host TEXT NOT NULL,
				granted_at INTEGER NOT NULL,
				PRIMARY KEY (plugin, name))`,
		},
	}}
}

type keyRow struct {
	Plugin    string `gorm:"primaryKey"`
	ThreadID  string `gorm:"primaryKey"`
	Key       string `gorm:"primaryKey"`
	Value     []byte
	Version   uint64
	UpdatedAt int64 `gorm:"autoUpdateTime:false"`
}

func (keyRow) TableName() string { return "keys" }

// Store is an open store of keys and leases. A change is durable when its method returns. Methods may be called from several
// goroutines, and several processes may have the same store open.
type Store struct {
	db    *database.DB
	hosts database.Locks // each Store with leases holds one, under its name
	host  string         // identifies this Store among all that have the database open

	mu struct {
		sync.Mutex
		closed   bool
		alive    database.Lock       // held while this Store may have leases
		leases   map[leaseKey]*Lease // held by this Store
		released chan struct{}       // closed, and made anew, when one of them ends
	}
}

// Open opens or creates the store in the database where. lockDir is the folder for its lock files if the database has no
// locks of its own.
func Open(ctx context.Context, where database.Config, lockDir string) (*Store, error) {
	where.Schema, where.Migrations = "state", migrations()
	db, err := database.Open(ctx, where)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, hosts: db.Locks(lockDir), host: uuid.NewString()}
	s.mu.leases = map[leaseKey]*Lease{}
	s.mu.released = make(chan struct{})
	return s, nil
}

// Scope is a set of keys: those of a plugin, or those of a plugin for one thread.
type Scope struct {
	Plugin string
	Thread event.ThreadID // empty: keys that belong to no thread
	// Quota limits the total size of the plugin's keys and values in all of its scopes, in bytes. 0: unlimited.
	Quota int64
}

// ErrQuota is returned by [Store.Put] if a value would exceed the plugin's quota.
var ErrQuota = errors.New("the plugin has reached its storage limit")

// Value is the value of a key. Its version is unique among all values of all keys.
type Value struct {
	Data    []byte
	Version uint64
	Updated time.Time
}

// Get returns the value of a key, and false if there is no such key.
func (s *Store) Get(ctx context.Context, scope Scope, key string) (Value, bool, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return Value{}, false, err
	}
	var rows []keyRow
	err = g.Where("plugin = ? AND thread_id = ? AND key = ?", scope.Plugin, string(scope.Thread), key).Find(&rows).Error
	if err != nil {
		return Value{}, false, fmt.Errorf("read state %q of plugin %q: %w", key, scope.Plugin, s.db.Explain(err))
	}
	if len(rows) == 0 {
		return Value{}, false, nil
	}
	return Value{Data: rows[0].Value, Version: rows[0].Version, Updated: database.Time(rows[0].UpdatedAt)}, true, nil
}

// Put stores a value and returns its version. If ifVersion is set, it does so only if that is the key's version, where 0 means that
// the key must not exist; otherwise stored is false and version is the key's version.
func (s *Store) Put(ctx context.Context, scope Scope, key string, data []byte, ifVersion *uint64) (version uint64, stored bool, err error) {
	switch {
	case key == "" || len(key) > MaxKeyBytes:
		return 0, false, fmt.Errorf("store state of plugin %q: a key has 1 to %d bytes, this one has %d", scope.Plugin, MaxKeyBytes, len(key))
	case len(data) > MaxValueBytes:
		return 0, false, hint.With(fmt.Errorf("store state %q of plugin %q: a value has at most %d bytes, this one has %d", key, scope.Plugin, MaxValueBytes, len(data)),
			"put large content into an artifact")
	}
	if data == nil {
		data = []byte{}
	}
	err = s.write(ctx, func(tx *gorm.DB) error {
		if version, stored, err = matches(tx, scope, key, ifVersion); err != nil || !stored {
			return err
		}
		if err := reserve(tx, scope, key, len(key)+len(data)); err != nil {
			return err
		}
		err := tx.Raw("UPDATE counters SET value = value + 1 WHERE name = 'version' RETURNING value").Scan(&version).Error
		if err != nil {
			return err
		}
		return database.Exec(tx, `INSERT INTO keys (plugin, thread_id, key, value, version, updated_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (plugin, thread_id, key) DO UPDATE SET value = excluded.value, version = excluded.version,
			updated_at = excluded.updated_at`,
			scope.Plugin, string(scope.Thread), key, data, version, time.Now().UnixNano())
	})
	if err != nil {
		return 0, false, fmt.Errorf("store state %q of plugin %q: %w", key, scope.Plugin, err)
	}
	return version, stored, nil
}

// Delete removes a key; it is no error if there is no such key. If ifVersion is set, it does so only if that is the key's version;
// otherwise deleted is false and version is the key's version.
func (s *Store) Delete(ctx context.Context, scope Scope, key string, ifVersion *uint64) (version uint64, deleted bool, err error) {
	err = s.write(ctx, func(tx *gorm.DB) error {
		if version, deleted, err = matches(tx, scope, key, ifVersion); err != nil || !deleted {
			return err
		}
		version = 0
		if err := reserve(tx, scope, key, 0); err != nil {
			return err
		}
		return database.Exec(tx, "DELETE FROM keys WHERE plugin = ? AND thread_id = ? AND key = ?", scope.Plugin, string(scope.Thread), key)
	})
	if err != nil {
		return 0, false, fmt.Errorf("delete state %q of plugin %q: %w", key, scope.Plugin, err)
	}
	return version, deleted, nil
}

// reserve counts what a plugin keeps, with size bytes for one key, and refuses to count more than its quota.
func reserve(tx *gorm.DB, scope Scope, key string, size int) error {
	name := "bytes " + scope.Plugin
	var now struct {
		Counted *int64 // nil: not known, has to be computed
		Was     int64
	}
	if err := tx.Raw("SELECT (SELECT value FROM counters WHERE name = ?) AS counted, COALESCE("+
		"(SELECT OCTET_LENGTH(key) + OCTET_LENGTH(value) FROM keys WHERE plugin = ? AND thread_id = ? AND key = ?), 0) AS was",
		name, scope.Plugin, string(scope.Thread), key).Scan(&now).Error; err != nil {
		return err
	}
	var before int64
	if now.Counted != nil {
		before = *now.Counted
	} else if err := tx.Raw("SELECT COALESCE(SUM(OCTET_LENGTH(key) + OCTET_LENGTH(value)), 0) FROM keys WHERE plugin = ?", scope.Plugin).Scan(&before).Error; err != nil {
		return err
	}
	after := before - now.Was + int64(size)
	if scope.Quota > 0 && after > scope.Quota && after > before {
		return ErrQuota
	}
	return database.Exec(tx, "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, after)
}

// matches reports whether the key's version is want; the version is 0 if there is no such key.
func matches(tx *gorm.DB, scope Scope, key string, want *uint64) (have uint64, ok bool, err error) {
	if want == nil {
		return 0, true, nil
	}
	err = tx.Raw("SELECT version FROM keys WHERE plugin = ? AND thread_id = ? AND key = ?", scope.Plugin, string(scope.Thread), key).
		Scan(&have).Error
	return have, err == nil && have == *want, err
}

// List returns the keys of a scope that have a prefix, sorted.
func (s *Store) List(ctx context.Context, scope Scope, prefix string) ([]string, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	err = g.Model(&keyRow{}).Where("plugin = ? AND thread_id = ? AND substr(key, 1, length(?)) = ?", scope.Plugin,
		string(scope.Thread), prefix, prefix).Order("key").Pluck("key", &keys).Error
	if err != nil {
		return nil, fmt.Errorf("list state of plugin %q: %w", scope.Plugin, s.db.Explain(err))
	}
	return keys, nil
}

// DeleteThread removes the keys of all plugins for a thread.
func (s *Store) DeleteThread(ctx context.Context, thread event.ThreadID) error {
	if thread == "" {
		return nil // these keys belong to no thread
	}
	err := s.write(ctx, func(tx *gorm.DB) error {
		// The sizes are computed again when they are needed.
		if err := database.Exec(tx, "DELETE FROM counters WHERE name IN (SELECT 'bytes ' || plugin FROM keys WHERE thread_id = ?)", string(thread)); err != nil {
			return err
		}
		return database.Exec(tx, "DELETE FROM keys WHERE thread_id = ?", string(thread))
	})
	if err != nil {
		return fmt.Errorf("delete state of thread %s: %w", thread, err)
	}
	return nil
}

func (s *Store) write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.db.Write(ctx, database.Full, fn)
}

// Close releases all leases and closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	alive, leases := s.mu.alive, s.mu.leases
	s.mu.closed, s.mu.alive, s.mu.leases = true, nil, nil
	s.mu.Unlock()
	for _, l := range leases {
		l.end(database.ErrClosed)
	}
	var err error
	if alive != nil {
		// From here on other processes may take the leases of this Store; leases that it still acquires are void.
		err = alive.Release()
	}
	return errors.Join(err, s.db.Close())
}
