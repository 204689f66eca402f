package snapshot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

const (
	// maxAge is how long a snapshot, or the fact that there is none, is cached. Changes of the profile take effect after that time.
	maxAge = 10 * time.Minute
	// maxStates is the maximum number of entries. The least recently used one is dropped.
	maxStates = 32
)

// Key contains what the effect of a profile may depend on.
type Key struct {
	Shell, Cwd string
	Grant      string // permissions of the shell, in any form
}

// Cache caches snapshots. The zero value is ready to use.
type Cache struct {
	mu struct {
		sync.Mutex
		entries []*entry // least recently used first
	}
}

// entry is a snapshot, or an attempt to take one.
type entry struct {
	key   Key
	taken time.Time
	ready chan struct{} // closed when state is set
	state *State        // nil: none
	retry bool          // the attempt was inconclusive; waiting callers try again
}

// Get returns the snapshot of a key, calling take if there is none; nil if none can be taken. Concurrent callers wait for the same call of
// take. If it fails because ctx ends or because the shell can't be started, the next caller tries again.
func (b *Cache) Get(ctx context.Context, key Key, take func(context.Context) (*State, error)) *State {
	for ctx.Err() == nil {
		e, mine := b.entry(key)
		if mine {
			return b.fill(ctx, e, take)
		}
		select {
		case <-e.ready:
			if !e.retry {
				return e.state
			}
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *Cache) fill(ctx context.Context, e *entry, take func(context.Context) (*State, error)) *State {
	e.retry = true // in case take panics
	defer close(e.ready)
	defer func() {
		if e.retry {
			b.remove(e)
		}
	}()
	state, err := take(ctx)
	_, unstarted := errors.AsType[*process.StartError](err)
	e.state, e.retry = state, err != nil && (unstarted || ctx.Err() != nil)
	return state
}

// entry returns the entry of a key, and whether it is the caller's to fill.
func (b *Cache) entry(key Key) (_ *entry, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.mu.entries, func(e *entry) bool { return e.key == key })
	if i >= 0 {
		e := b.mu.entries[i]
		b.mu.entries = slices.Delete(b.mu.entries, i, i+1)
		if time.Since(e.taken) < maxAge {
			b.mu.entries = append(b.mu.entries, e)
			return e, false
		}
	}
	e := &entry{key: key, taken: time.Now(), ready: make(chan struct{})}
	if b.mu.entries = append(b.mu.entries, e); len(b.mu.entries) > maxStates {
		b.mu.entries = slices.Delete(b.mu.entries, 0, 1)
	}
	return e, true
}

func (b *Cache) remove(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.mu.entries, e); i >= 0 {
		b.mu.entries = slices.Delete(b.mu.entries, i, i+1)
	}
}

// Forget drops all snapshots, because a profile has changed.
func (b *Cache) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.entries = nil
}
