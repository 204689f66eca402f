package flock

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func openQueue(t *testing.T, path string) *Queue {
	t.Helper()
	q, err := OpenQueue(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// Who releases the lock and asks again at once comes after the one that has waited.
func TestQueueServesInTurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	greedy, patient := openQueue(t, path), openQueue(t, path)
	probe := openQueue(t, path).next
	if err := greedy.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		served := make(chan error, 1)
		var turn atomic.Int64
		go func() { // owned by this test, which reads served
			err := patient.Acquire(t.Context())
			turn.Store(1)
			patient.Release()
			served <- err
		}()
		for waiting := false; !waiting; runtime.Gosched() {
			free, err := tryLock(probe, true)
			if err != nil || free && unlock(probe) != nil {
				t.Fatal(err)
			}
			waiting = !free
		}
		greedy.Release()
		if err := greedy.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if turn.Load() == 0 {
			t.Fatal("the former holder came first")
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
}

// One member at a time holds the lock.
func TestQueueExcludes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	var holders atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		q := openQueue(t, path)
		all.Go(func() {
			for range 100 {
				if err := q.Acquire(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				q.Release()
			}
		})
	}
	all.Wait()
}

// A caller that gives up does not keep the lock from others, and keeps its place if it asks again in time.
func TestQueueWhenACallerGivesUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	first, second, third := openQueue(t, path), openQueue(t, path), openQueue(t, path)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	soon := func(q *Queue) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		return q.Acquire(ctx)
	}
	for range 2 {
		if err := soon(second); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("while another one holds it: %v", err)
		}
	}
	first.Release()
	if err := third.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := soon(second); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("while a third one holds it: %v", err)
	}
	third.Release()
	if err := second.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
}
