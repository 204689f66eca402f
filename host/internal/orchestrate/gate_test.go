package orchestrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func open(t *Ticket) bool {
	select {
	case <-t.admitted:
		return true
	default:
		return false
	}
}

func TestGateOrder(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls []struct {
			shared bool
			group  string
		}
		open []bool
	}{
		{"shared run together", []struct {
			shared bool
			group  string
		}{{true, ""}, {true, ""}}, []bool{true, true}},
		{"an exclusive one waits for all before it", []struct {
			shared bool
			group  string
		}{{true, ""}, {false, ""}, {true, ""}}, []bool{true, false, false}},
		{"a group goes one by one, others pass", []struct {
			shared bool
			group  string
		}{{true, "g"}, {true, "g"}, {true, "h"}, {true, ""}}, []bool{true, false, true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var g Gate
			for i, c := range tc.calls {
				if got := open(g.Enter(c.shared, c.group)); got != tc.open[i] {
					t.Errorf("call %d admitted = %v, want %v", i, got, tc.open[i])
				}
			}
		})
	}
}

func TestGateWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		first := g.Enter(false, "")
		second := g.Enter(false, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- second.Wait(ctx) }() // owned by the test
		synctest.Wait()
		cancel(ErrInterrupted)
		if err := <-done; !errors.Is(err, ErrInterrupted) {
			t.Errorf("Wait = %v, want %v", err, ErrInterrupted)
		}
		second.Leave()
		third := g.Enter(true, "")
		first.Leave()
		if !open(third) {
			t.Error("a place that was given up still blocks")
		}
	})
}

// Whatever enters and leaves in whatever order: no two that exclude each other run at once, and nobody waits when nothing
// stands before it.
func TestGateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gate
		var live []*Ticket
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "who")
				live[i].Leave()
				live[i].Leave()
				live = append(live[:i], live[i+1:]...)
			} else {
				live = append(live, g.Enter(rapid.Bool().Draw(t, "shared"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group")))
			}
			for i, a := range live {
				for _, b := range live[:i] {
					if open(a) && open(b) && a.waitsFor(b) {
						t.Fatal("two calls that exclude each other run at once")
					}
				}
			}
			if len(live) > 0 && !open(live[0]) {
				t.Fatal("the first in the queue waits")
			}
		}
	})
}
