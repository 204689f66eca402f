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
	// maxAge is how long a snapshot, or that there is none, holds. A user who changes the profile sees it after so long.
	maxAge = 10 * time.Minute
	// maxStates bounds what is kept. The one not used for longest goes.
	maxStates = 32
)

// Key is what a profile may decide by.
type Key struct {
	Shell, Cwd string
	Grant      string // what the shell may do, in any form
}

// Cache keeps snapshots. The zero Cache is ready.
type Cache struct {
	mu struct {
		sync.Mutex
		entries []*entry // the one used last is the last
	}
}

// entry is one snapshot, or the attempt at one.
type entry struct {
	key   Key
	taken time.Time
	ready chan struct{} // closed when state is set
	state *State        // nil: none
	retry bool          // nobody knows: whoever waits tries again
}

// Get returns the snapshot of a key and takes it if there is none yet; nil where none can be taken. Who comes while it is
// being taken waits for it. When it was ctx that ended, or the shell could not be started, the next one tries again.
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
	e.retry = true // unless take returns
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

// Forget lets go of all snapshots: a profile has changed.
func (b *Cache) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.entries = nil
}
