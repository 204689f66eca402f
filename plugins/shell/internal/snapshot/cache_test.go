package snapshot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

func counted(n *int, s *State, err error) func(context.Context) (*State, error) {
	return func(context.Context) (*State, error) { *n++; return s, err }
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Cache
		var n int
		state := &State{}
		get := func(k Key) *State { return b.Get(t.Context(), k, counted(&n, state, nil)) }
		one, two := Key{Cwd: "1"}, Key{Cwd: "2"}
		for i, k := range []Key{one, one, two, one, two} {
			if get(k) != state {
				t.Errorf("%d: another state", i)
			}
		}
		if n != 2 {
			t.Errorf("taken %d times, want 2", n)
		}
		time.Sleep(maxAge)
		if get(one); n != 3 {
			t.Errorf("too old: taken %d times, want 3", n)
		}
		b.Forget()
		if get(one); n != 4 {
			t.Errorf("forgotten: taken %d times, want 4", n)
		}
		for i := range maxStates {
			get(one)
			get(Key{Cwd: "more", Grant: string(rune('a' + i))})
		}
		if n != 4+maxStates || len(b.mu.entries) != maxStates {
			t.Errorf("taken %d times, %d kept", n, len(b.mu.entries))
		}
	})
}

func TestFailureIsCached(t *testing.T) {
	var b Cache
	var n int
	for range 3 {
		if b.Get(t.Context(), Key{}, counted(&n, nil, errors.New("no"))) != nil {
			t.Error("there is one")
		}
	}
	if n != 1 {
		t.Errorf("tried %d times", n)
	}
	for range 2 { // a folder that is not there says nothing about the shell
		b.Get(t.Context(), Key{Cwd: "missing"}, counted(&n, nil, &process.StartError{}))
	}
	if n != 3 {
		t.Errorf("tried %d times", n)
	}
}

func TestConcurrentCallersShareASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Cache
		begun, state := 0, &State{}
		first, cancel := context.WithCancel(t.Context())
		slow := func(ctx context.Context) (*State, error) {
			begun++
			select {
			case <-time.After(time.Second):
				return state, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if b.Get(first, Key{}, slow) != nil {
				t.Error("the interrupted one got a state")
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if b.Get(t.Context(), Key{}, slow) != state {
					t.Error("no state")
				}
			})
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("%d began", begun)
		}
		cancel() // another caller tries again
		wg.Wait()
		if begun != 2 {
			t.Errorf("%d began, want 2", begun)
		}
	})
}
